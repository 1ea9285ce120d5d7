import { defineConfig } from 'vitest/config'

/** What `npm run test:mutation` holds each changed line against: the tests beside the files, which need no API server. */
export default defineConfig({
  test: {
    include: ['src/{domain,runtime}/**/*.test.ts'],
    testTimeout: 30_000,
  },
})
