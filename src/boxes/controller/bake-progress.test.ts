/** A bake whose pod is not there, or does not run, as `bakeProgress` of bake-outcome.ts reads it. */
import { describe, expect, test } from 'vitest'
import {
  ACTIVE_MS,
  CREATED,
  failureOf,
  type GivenRun,
  podOf,
  progressOf,
  withState,
} from '../../../test/support/bake-runs.ts'

const MINUTE = 60_000

describe('a Job without a pod', () => {
  test('is waited for a minute', () => {
    expect(progressOf({})).toEqual({ state: 'waiting', until: CREATED + MINUTE })
    expect(progressOf({ complaints: ['exceeded quota'] })).toEqual({
      state: 'waiting',
      until: CREATED + MINUTE,
    })
  })

  test('is looked at every minute, and has failed after ten in which nobody says why', () => {
    expect(progressOf({ after: 2 * MINUTE })).toEqual({ state: 'waiting', until: CREATED + 3 * MINUTE })
    expect(progressOf({ after: 10 * MINUTE - 1 })).toEqual({
      state: 'waiting',
      until: CREATED + 10 * MINUTE,
    })
    expect(failureOf({ after: 10 * MINUTE })).toMatchObject({ step: 'start', code: 'no_pod' })
  })

  test('has its time by our own clock too, which may be ahead of the one that dated the Job', () => {
    const begun = 30 * MINUTE
    expect(failureOf({ begun, after: 40 * MINUTE - 1 })).toBeUndefined()
    expect(failureOf({ begun, after: 40 * MINUTE })).toMatchObject({ code: 'no_pod' })
  })

  test('has its time anew when it was suspended in between', () => {
    const job = { status: { startTime: new Date(CREATED + 30 * MINUTE).toISOString() } }
    expect(failureOf({ job, after: 40 * MINUTE - 1 })).toBeUndefined()
    expect(failureOf({ job, after: 40 * MINUTE })).toMatchObject({ code: 'no_pod' })
  })

  test('any more is waited for, since it is about to say what became of it', () => {
    const job = { status: { active: 1 } }
    expect(progressOf({ job, after: 20 * MINUTE })).toEqual({
      state: 'waiting',
      until: CREATED + 21 * MINUTE,
    })
  })

  test('that was suspended until now has its minute after that', () => {
    const lastTransitionTime = new Date(CREATED + 30 * MINUTE).toISOString()
    const conditions = [{ type: 'Suspended', status: 'False', lastTransitionTime }]
    const run = { conditions, complaints: ['exceeded quota'] }
    const until = CREATED + 31 * MINUTE
    expect(progressOf({ ...run, after: 30 * MINUTE + 1 })).toEqual({ state: 'waiting', until })
    expect(progressOf({ ...run, after: 31 * MINUTE }).state).toBe('stuck')
  })

  const rows: [words: string, code: string][] = [
    [
      'Error creating: pods "shop-1-x" is forbidden: exceeded quota: pods, requested: pods=1, used: pods=3, limited: pods=3',
      'quota',
    ],
    ['Error creating: pods "shop-1-x" is forbidden: failed quota: mem: must specify limits.memory', 'quota'],
    [
      'Error creating: pods "shop-1-x" is forbidden: failed quota: disk: must specify ephemeral-storage for: bake',
      'quota',
    ],
    [
      'Error creating: pods "shop-1-x" is forbidden: failed quota: all: must specify cpu for: bake; memory for: bake',
      'quota',
    ],
    ['Error creating: pods "shop-1-x" is forbidden: status unknown for quota: all, resources: pods', 'quota'],
    [
      'Error creating: pods "shop-1-x" is forbidden: insufficient quota to match these scopes: [{PriorityClass In [batch]}]',
      'quota',
    ],
    [
      'Error creating: pods "shop-1-x" is forbidden: policy example: must specify a cost center',
      'pod_rejected',
    ],
    [
      'Error creating: pods "shop-1-x" is forbidden: error looking up service account acme/box: serviceaccount "box" not found',
      'service_account_missing',
    ],
    [
      'Error creating: pods "shop-1-x" is forbidden: violates PodSecurity "restricted:latest"',
      'pod_rejected',
    ],
    ['Error creating: admission webhook "policy.example" denied the request: no', 'pod_rejected'],
  ]

  test.for(rows)('has failed then, in the words of who refused it: %s', ([words, code]) => {
    const found = progressOf({ complaints: ['older', words], after: MINUTE })
    expect(found).toMatchObject({
      state: 'stuck',
      outcome: { failure: { step: 'start', code, message: words } },
    })
  })
})

describe('a pod that does not run', () => {
  const unschedulable = podOf({
    conditions: [
      { type: 'PodScheduled', status: 'False', reason: 'Unschedulable', message: '0/3 nodes are available' },
    ],
  })
  const image = withState({
    waiting: { reason: 'ImagePullBackOff', message: 'Back-off pulling image "davit:1"' },
  })
  const config = withState({ waiting: { reason: 'CreateContainerConfigError', message: 'secret not found' } })

  test.for([
    ['no node takes it', unschedulable, 10 * MINUTE, 'unschedulable', '0/3 nodes'],
    ['its image is not to be had', image, 2 * MINUTE, 'bake_image_missing', 'Back-off pulling image'],
    ['its container cannot be made', config, 2 * MINUTE, 'pod_rejected', 'secret not found'],
  ] as const)('since %s is waited for, and then has failed', ([, pod, limit, code, words]) => {
    expect(progressOf({ pod, after: limit - 1 })).toEqual({ state: 'waiting', until: CREATED + limit })
    expect(progressOf({ pod, after: limit }).state).toBe('stuck')
    expect(failureOf({ pod, after: limit })).toMatchObject({ code, message: expect.stringContaining(words) })
  })

  test('has its time by our own clock too, which may be ahead of the one that dated it', () => {
    const begun = 30 * MINUTE
    expect(failureOf({ begun, pod: image, after: 32 * MINUTE - 1 })).toBeUndefined()
    expect(failureOf({ begun, pod: image, after: 32 * MINUTE })).toMatchObject({ code: 'bake_image_missing' })
    expect(failureOf({ begun, pod: unschedulable, after: 40 * MINUTE - 1 })).toBeUndefined()
    expect(failureOf({ begun, pod: unschedulable, after: 40 * MINUTE })).toMatchObject({
      code: 'unschedulable',
    })
  })

  test.for([
    ['its image', { reason: 'ErrImagePull', message: 'i/o timeout' }, [], 2 * MINUTE],
    ['its container', { reason: 'CreateContainerError', message: 'timed out' }, [], 2 * MINUTE],
    ['its volume', { reason: 'ContainerCreating' }, ['MountVolume.SetUp failed'], 10 * MINUTE],
  ] as const)(
    'since it had to wait for its node has as long for %s as any other',
    ([, waiting, complaints, limit]) => {
      const scheduled = CREATED + 9 * MINUTE
      const lastTransitionTime = new Date(scheduled).toISOString()
      const conditions = [{ type: 'PodScheduled', status: 'True', lastTransitionTime }]
      const pod = withState({ waiting }, { conditions })
      const run = { pod, complaints: [...complaints] }
      expect(progressOf({ ...run, after: 10 * MINUTE })).toEqual({
        state: 'waiting',
        until: scheduled + limit,
      })
      expect(progressOf({ ...run, after: 9 * MINUTE + limit }).state).toBe('stuck')
    },
  )

  test('since the name of its image is none has failed at once', () => {
    const pod = withState({ waiting: { reason: 'InvalidImageName', message: "couldn't parse" } })
    expect(failureOf({ pod })).toMatchObject({ code: 'bake_image_missing' })
  })

  test('since its node cannot start it is waited for, and then has failed in the words of the node', () => {
    const pod = withState({ waiting: { reason: 'ContainerCreating' } })
    const complaints = ['older', 'MountVolume.SetUp failed for volume "output" : timed out']
    expect(progressOf({ pod, complaints, after: 10 * MINUTE - 1 })).toEqual({
      state: 'waiting',
      until: CREATED + 10 * MINUTE,
    })
    expect(progressOf({ pod, complaints, after: 10 * MINUTE })).toMatchObject({
      state: 'stuck',
      outcome: { failure: { step: 'start', code: 'not_started', message: complaints[1] } },
    })
  })

  test('yet is waited for', () => {
    const pod = withState({ waiting: { reason: 'ContainerCreating' } })
    expect(progressOf({ pod, after: 60 * MINUTE })).toEqual({ state: 'waiting' })
  })
})

describe('a Job that is suspended', () => {
  const since = new Date(CREATED + 600_000).toISOString()
  const SUSPENDED = { type: 'Suspended', status: 'True', message: 'Job suspended', lastTransitionTime: since }

  test('is waited for, for an hour', () => {
    const until = CREATED + 600_000 + 3_600_000
    expect(progressOf({ conditions: [SUSPENDED], after: 700_000 })).toEqual({ state: 'waiting', until })
    const found = progressOf({ conditions: [SUSPENDED], after: until - CREATED })
    expect(found).toMatchObject({
      state: 'stuck',
      outcome: { failure: { code: 'suspended', message: 'Job suspended' } },
    })
  })

  test('and is let go on runs', () => {
    const pod = withState({ running: {} }, { phase: 'Running' })
    const conditions = [{ ...SUSPENDED, status: 'False' }]
    expect(progressOf({ conditions, pod, after: 7_000_000 })).toEqual({ state: 'running' })
  })

  test('and of which its controller says nothing is waited for as long', () => {
    const job = { spec: { suspend: true } }
    expect(progressOf({ job, after: 700_000 })).toEqual({ state: 'waiting', until: CREATED + 3_600_000 })
    expect(failureOf({ job, after: 3_600_000 })).toMatchObject({
      code: 'suspended',
      message: 'The Job is suspended.',
    })
  })
})

describe('a Job that nobody ends', () => {
  const AN_HOUR_AND_ITS_TIME = 3_600_000 + ACTIVE_MS + 600_000
  const suspended = { type: 'Suspended', status: 'True', lastTransitionTime: '2026-01-31T14:00:00Z' }
  const runs: [name: string, given: GivenRun][] = [
    ['whose pod runs', { pod: withState({ running: {} }, { phase: 'Running' }) }],
    ['whose pod does not start', { pod: withState({ waiting: { reason: 'ContainerCreating' } }) }],
    ['whose pod is gone', { job: { status: { failed: 1 } } }],
    ['that is suspended again and again', { conditions: [suspended] }],
  ]

  test.for(runs)('%s holds its turn no longer than a Job may take', ([, given]) => {
    expect(failureOf({ ...given, after: AN_HOUR_AND_ITS_TIME - 1 })).toBeUndefined()
    expect(progressOf({ ...given, after: AN_HOUR_AND_ITS_TIME })).toMatchObject({
      state: 'stuck',
      outcome: { failure: { step: 'start', code: 'timed_out' } },
    })
  })
})
