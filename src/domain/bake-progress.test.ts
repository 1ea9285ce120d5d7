/** A bake whose pod is not there, or does not run, as `bakeProgress` of bake-outcome.ts reads it. */
import { describe, expect, test } from 'vitest'
import { CREATED, failureOf, podOf, progressOf, withState } from '../../test/support/bake-runs.ts'

const MINUTE = 60_000

describe('a Job without a pod', () => {
  test('is waited for a minute', () => {
    expect(progressOf({})).toEqual({ state: 'waiting', until: CREATED + MINUTE })
    expect(progressOf({ complaints: ['exceeded quota'] })).toEqual({
      state: 'waiting',
      until: CREATED + MINUTE,
    })
    expect(progressOf({ after: MINUTE })).toEqual({ state: 'waiting', until: CREATED + 2 * MINUTE })
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
      'Error creating: pods "shop-1-x" is forbidden: error looking up service account acme/box: serviceaccount "box" not found',
      'service_account_missing',
    ],
    ['Error creating: pods "shop-1-x" is forbidden: violates PodSecurity "restricted:latest"', 'pod_refused'],
    ['Error creating: admission webhook "policy.example" denied the request: no', 'pod_refused'],
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
    ['its container cannot be made', config, 2 * MINUTE, 'pod_refused', 'secret not found'],
  ] as const)('since %s is waited for, and then has failed', ([, pod, limit, code, words]) => {
    expect(progressOf({ pod, after: limit - 1 })).toEqual({ state: 'waiting', until: CREATED + limit })
    expect(progressOf({ pod, after: limit }).state).toBe('stuck')
    expect(failureOf({ pod, after: limit })).toMatchObject({ code, message: expect.stringContaining(words) })
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
