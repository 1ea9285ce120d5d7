import { defineConfig } from 'vitest/config'

/** What `npm run test:mutation` holds each changed line against: the tests beside the files, which need no API server. */
export default defineConfig({
  test: {
    include: [process.env.MUTATION_TESTS ?? 'src/{apis,boxes,credentials,ha,kube,lib,webhooks}/**/*.test.ts'],
    // It has limits of time, and no line that it runs is changed.
    exclude: ['src/lib/json-schema.test.ts'],
    // For the run that sees which code each test runs, on a busy machine. Stryker itself ends a change that makes a test hang.
    testTimeout: 300_000,
  },
})
