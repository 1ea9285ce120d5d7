import { defineConfig } from 'vitest/config'

/** What `npm run test:mutation` holds each changed line against: the tests beside the files, which need no API server. */
export default defineConfig({
  test: {
    include: [process.env.MUTATION_TESTS ?? 'src/**/*.test.ts'],
    // The largest takes half of this while it is seen which code it runs. A change that makes one hang is found.
    testTimeout: 60_000,
  },
})
