import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'

/** Far beyond what a test takes: it is there for tests that hang, not for machines that are busy. */
const UNIT_TEST_LIMIT_MS = 120_000
/** A failure of AWS or of a registry counts only after it has lasted. */
const BAKE_TEST_LIMIT_MS = 120_000
const CLUSTER_TEST_LIMIT_MS = 60_000
const FAULT_TEST_LIMIT_MS = 150_000
/** Hooks start servers. */
const HOOK_LIMIT_MS = 120_000

/**
 * Tests that `npm run test:full` runs and `npm test` leaves out: campaigns (chaos, hostile receivers, the canary) at their short
 * dose, releases that are installed and upgraded, and tests that wait in real time.
 */
const FULL = {
  unit: [
    'src/credentials/aws/shared-account.test.ts',
    'src/webhooks/delivery/coordinated-handoff.test.ts',
    'test/credential-crashes.test.ts',
    'test/credential-deletions.test.ts',
    'test/fuzz/patterns.test.ts',
    'test/monitoring/rules.test.ts',
    'test/rest-server-canary.test.ts',
    'test/site.test.ts',
    'test/verify-page.test.ts',
    'test/workflows.test.ts',
  ],
  bake: [
    'test/bake/{bake-ecr,bake-ends,bake-failures,bake-network,bake-secrets,canary,killed-bakes,layout-problems}.test.ts',
  ],
  cluster: [
    'test/box/{docker-helper,kubelet,kubelet-rights,podman}.test.ts',
    'test/canary/canary.test.ts',
    'test/chaos/chaos.test.ts',
    'test/chaos/credentials/credential-chaos.test.ts',
    'test/chaos/rest-server/server-chaos.test.ts',
    'test/chart/{bakes-off,chart,check,first-webhook,install,kinds-first,kubernetes-versions,names}.test.ts',
    'test/chart/{null-values,organization,parent-chart,parity,rejected-values,tenants}.test.ts',
    'test/chart/{uninstall,uninstall-failed,uninstall-running,upgrade}.test.ts',
    'test/contract/{aws-moto,docs-examples,gitops-health}.test.ts',
    'test/hostile/**/*.test.ts',
    'test/integration/{attempts,auto-disable,auto-disabled,box-crashes,concurrency,credential-isolation}.test.ts',
    'test/integration/{credential-rules,deadly-delivery,environment,limits,outage,outage-recreated,outage-unseen}.test.ts',
    'test/integration/{owner-mail,payload,poison-log,redelivery-later,renewed-tokens,replica-names,replicas,restart}.test.ts',
    'test/integration/{restart-requests,restore,restore-account,stalled-loop,storm,wall-clock}.test.ts',
    'test/monitoring/real/*.test.ts',
    'test/playground/{bakes,control-plane,control-plane-end,control-plane-options,kind-pages}.test.ts',
    'test/playground/{pasted,playground,rest-page}.test.ts',
    'test/rest/{clock-ahead,deletion-in-force,docs-page,failed-rolls,idempotency,lagging-watch}.test.ts',
    'test/rest/{raw-limits,rbac,unsent-keys,unused-keys}.test.ts',
    'test/rest/{registry-credential-faults,restart,review-floods,server-replicas,suspended-server,verdicts}.test.ts',
  ],
}

const UNIT = [
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
]
const FLEET = 'test/chaos/fleet/fleet-chaos.test.ts'
const CLUSTER = [
  'test/{box,chart,contract,integration,rest,chaos,canary,hostile,playground}/**/*.test.ts',
  'test/monitoring/real/*.test.ts',
]

/** `expect.poll` gives up after a second by itself, which a busy API server may need. */
const expect = { poll: { timeout: 20_000 } }
const unit = { testTimeout: UNIT_TEST_LIMIT_MS, expect }
const bake = { testTimeout: BAKE_TEST_LIMIT_MS, hookTimeout: HOOK_LIMIT_MS, expect }
const cluster = { testTimeout: CLUSTER_TEST_LIMIT_MS, hookTimeout: HOOK_LIMIT_MS, expect }
const NO_PACKAGES = '**/node_modules/**'

/** What `npm test` runs. */
const QUICK_PROJECTS = [
  { test: { ...unit, name: 'unit', include: UNIT, exclude: [NO_PACKAGES, ...FULL.unit] } },
  { test: { ...bake, name: 'bake', include: ['test/bake/**/*.test.ts'], exclude: FULL.bake } },
  {
    test: {
      ...cluster,
      name: 'cluster',
      include: CLUSTER,
      exclude: [...FULL.cluster, FLEET],
      globalSetup: ['test/support/chart/chart-tools-setup.ts', 'test/support/control-plane-setup.ts'],
    },
  },
]

const FULL_PROJECTS = [
  { test: { ...unit, name: 'full-unit', include: FULL.unit } },
  { test: { ...bake, name: 'full-bake', include: FULL.bake } },
  {
    test: {
      ...cluster,
      name: 'full-cluster',
      include: FULL.cluster,
      globalSetup: [
        'test/support/chart/chart-tools-setup.ts',
        'test/support/go-programs-setup.ts',
        'test/support/control-plane-setup.ts',
      ],
    },
  },
  {
    // Seven processes, a separate control plane and load by itself fill two cores.
    test: {
      ...cluster,
      name: 'full-fleet',
      include: [FLEET],
      maxWorkers: 1,
      sequence: { groupOrder: 2 },
    },
  },
  {
    // Minutes of faults one after the other, and nothing else at that time: the alerts go by rates.
    test: {
      name: 'faults',
      include: ['test/monitoring/faults/*.test.ts'],
      testTimeout: FAULT_TEST_LIMIT_MS,
      hookTimeout: FAULT_TEST_LIMIT_MS,
      maxWorkers: 1,
      sequence: { groupOrder: 1 },
    },
  },
]

/** DAVIT_TESTS: `full` for everything, `rest` for what `npm test` leaves out. */
const PROJECTS = {
  quick: QUICK_PROJECTS,
  full: [...QUICK_PROJECTS, ...FULL_PROJECTS],
  rest: FULL_PROJECTS,
}

function wantedTests(): keyof typeof PROJECTS {
  const wanted = process.env.DAVIT_TESTS ?? 'quick'
  if (wanted !== 'quick' && wanted !== 'full' && wanted !== 'rest')
    throw new Error(`DAVIT_TESTS is quick, full or rest, not ${wanted}`)
  return wanted
}

const WANTED = wantedTests()

export default defineConfig({
  test: {
    // Half of the quick files wait for a server most of the time, so there are more workers than cores. Campaigns saturate what they try,
    // and some must be faster than a limit of two seconds: they share the cores with nothing but the control plane.
    maxWorkers:
      WANTED === 'quick' ? Math.max(4, availableParallelism()) : Math.max(2, availableParallelism() - 1),
    projects: PROJECTS[WANTED],
  },
})
