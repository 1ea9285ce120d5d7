import { defineConfig } from 'vitest/config'

/** What `npm run test:mutation` holds each changed line against: the tests beside the files, which need no API server. */
export default defineConfig({
  test: {
    include: ['src/{domain,runtime}/**/*.test.ts'],
    // A change that makes a test hang is found: none takes a tenth of this.
    testTimeout: 8000,
  },
})
