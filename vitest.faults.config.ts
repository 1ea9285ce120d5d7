import { defineConfig } from 'vitest/config'

/** Far beyond what one takes. */
const FAULT_LIMIT_MS = 150_000

/** `npm run test:monitoring`: minutes of faults one after the other, so that `.ci/run` has it and `npm test` has not. */
export default defineConfig({
  test: {
    name: 'faults',
    include: ['test/monitoring/faults/*.test.ts'],
    fileParallelism: false,
    testTimeout: FAULT_LIMIT_MS,
    hookTimeout: FAULT_LIMIT_MS,
  },
})
