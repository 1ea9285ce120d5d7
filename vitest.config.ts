import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Far beyond what a test takes: it is there for those that hang, not for machines that are busy. */
const UNIT_TEST_LIMIT_MS = 30_000
/** A failure of AWS or of a registry is waited for before it is one. */
const BAKE_TEST_LIMIT_MS = 120_000
const CLUSTER_TEST_LIMIT_MS = 60_000
/** Hooks start servers. */
const HOOK_LIMIT_MS = 120_000

export default defineConfig({
  test: {
    // Beside the control plane, whose API server works as hard as the tests do.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        test: {
          name: 'unit',
          include: [
            'src/**/*.test.ts',
            'playground/**/*.test.ts',
            'test-support/**/*.test.ts',
            'tools/**/*.test.ts',
            'test/*.test.ts',
            'test/bench/**/*.test.ts',
            'test/e2e/**/*.test.ts',
            'test/fuzz/**/*.test.ts',
            'test/node/**/*.test.ts',
            'test/monitoring/{,picture/}*.test.ts',
            'test/mutation/*.test.ts',
          ],
          exclude: ['**/node_modules/**'],
          testTimeout: UNIT_TEST_LIMIT_MS,
        },
      },
      {
        test: {
          name: 'bake',
          include: ['test/bake/**/*.test.ts'],
          testTimeout: BAKE_TEST_LIMIT_MS,
          hookTimeout: HOOK_LIMIT_MS,
        },
      },
      {
        test: {
          name: 'cluster',
          include: [
            'test/{box,chart,contract,integration,rest,chaos,canary,hostile,playground}/**/*.test.ts',
            'test/monitoring/real/*.test.ts',
          ],
          globalSetup: ['test/support/control-plane-setup.ts'],
          testTimeout: CLUSTER_TEST_LIMIT_MS,
          hookTimeout: HOOK_LIMIT_MS,
        },
      },
    ],
  },
})
