import { describe, expect, test } from 'vitest'
import {
  COMPLETE,
  DEADLINE,
  DIGEST,
  FAILED,
  FAILURE,
  failureOf,
  type GivenRun,
  podOf,
  progressOf,
  SUCCESS,
  terminated,
  withState,
} from '../../../test/support/bake-runs.ts'
import { fc } from '../../../test/support/fast-check.ts'

const text = JSON.stringify

describe('a Job that completed', () => {
  test('with its result has succeeded', () => {
    expect(progressOf({ conditions: [COMPLETE], pod: terminated(text(SUCCESS)) })).toEqual({
      state: 'ended',
      outcome: { services: SUCCESS.services },
    })
  })

  const without: [given: string, message: string, words: string][] = [
    ['no message', '', 'did not report a result'],
    ['a message that is no JSON', 'panic: runtime error', 'an unreadable result'],
    [
      'a result that is longer than any',
      text({ ...FAILURE, failure: { ...FAILURE.failure, message: 'a'.repeat(5000) } }),
      'an unreadable result',
    ],
    ['JSON that is no result', '{"version":2}', 'an unreadable result'],
    ['half a result', text(SUCCESS).slice(0, 100), 'an unreadable result'],
    [
      'a result that lacks a service',
      text({ ...SUCCESS, services: [SUCCESS.services[0]] }),
      'omits some services',
    ],
    [
      'a result without a digest',
      text({ ...SUCCESS, services: [{ name: 'api' }, { name: 'db', digest: DIGEST }] }),
      'omits some services',
    ],
    [
      'a result about others',
      text({ ...SUCCESS, services: [{ name: 'web', digest: DIGEST }] }),
      'for the wrong services',
    ],
    [
      'a result with a service twice',
      text({ ...SUCCESS, services: [SUCCESS.services[0], SUCCESS.services[0]] }),
      'for the wrong services',
    ],
    ['a failure without its reason', text({ ...FAILURE, failure: undefined }), 'without giving a cause'],
    ['a success with a failure', text({ ...SUCCESS, failure: FAILURE.failure }), 'omits some services'],
  ]

  test.for(without)('and left %s has failed', ([, message, words]) => {
    const failure = failureOf({ conditions: [COMPLETE], pod: terminated(message) })
    expect(failure).toMatchObject({ step: 'start', code: 'no_result' })
    expect(failure?.message).toContain(words)
    if (message !== '') expect(failure?.message).not.toContain(message)
  })

  test('and whose pod is gone has failed', () => {
    expect(failureOf({ conditions: [COMPLETE] })).toMatchObject({ code: 'no_result' })
  })
})

describe('a Job that failed', () => {
  test('tells what its pod told, and what the registry said of credentials', () => {
    const found = progressOf({ conditions: [FAILED], pod: terminated(text(FAILURE), { exitCode: 1 }) })
    expect(found).toEqual({
      state: 'ended',
      outcome: {
        services: FAILURE.services,
        failure: { ...FAILURE.failure, fix: expect.stringContaining('new secret') },
      },
    })
  })

  const evicted = podOf({
    phase: 'Failed',
    reason: 'Evicted',
    message: 'The node was low on resource: memory.',
  })
  const preempted = podOf({
    phase: 'Failed',
    conditions: [
      { type: 'DisruptionTarget', status: 'True', reason: 'PreemptionByScheduler', message: 'preempting' },
    ],
  })
  const rows: [given: string, given: GivenRun, code: string, words: string][] = [
    ['evicted', { pod: evicted }, 'evicted', 'low on resource: memory'],
    [
      'for want of room',
      {
        pod: podOf({
          phase: 'Failed',
          reason: 'Evicted',
          message: 'Usage of EmptyDir volume "output" exceeds the limit "20Gi". ',
        }),
      },
      'out_of_disk',
      'exceeds the limit "20Gi"',
    ],
    ['preempted', { pod: preempted }, 'evicted', 'preempting'],
    ['with a pod that is gone', {}, 'evicted', 'backoff limit'],
    [
      'out of memory',
      { pod: terminated('', { exitCode: 137, reason: 'OOMKilled' }) },
      'out_of_memory',
      'OOMKilled',
    ],
    ['at its deadline', { conditions: [DEADLINE] }, 'timed_out', 'longer than specified deadline'],
    [
      'at the deadline of its pod',
      { pod: podOf({ phase: 'Failed', reason: 'DeadlineExceeded', message: 'Pod was active' }) },
      'timed_out',
      'Pod was active',
    ],
    [
      'with no message',
      { pod: terminated('', { exitCode: 1 }) },
      'no_result',
      'exited with code 1 and did not report a result',
    ],
    [
      'with garbage',
      { pod: terminated('Error: boom', { exitCode: 2 }) },
      'no_result',
      'exited with code 2 and reported an unreadable result',
    ],
    [
      'with half a result that it succeeded',
      { pod: terminated(text({ ...SUCCESS, services: [] }), { exitCode: 1 }) },
      'no_result',
      'exited with code 1 and reported a result that omits some services',
    ],
    ['killed', { pod: terminated('', { exitCode: 137 }) }, 'no_result', 'exited with code 137'],
    [
      'without a container',
      { pod: podOf({ phase: 'Failed', reason: 'UnexpectedAdmissionError', message: 'no room on the node' }) },
      'pod_rejected',
      'no room on the node',
    ],
  ]

  test.for(rows)('%s', ([, given, code, words]) => {
    const failure = failureOf({ conditions: [FAILED], ...given })
    expect(failure).toMatchObject({ step: 'start', code })
    expect(failure?.message).toContain(words)
    expect(failure?.fix).not.toBe('')
  })

  test('at its deadline, and told something before, tells that', () => {
    const told = { ...FAILURE, failure: { ...FAILURE.failure, code: 'timed_out', message: 'copying blob' } }
    const pod = terminated(text(told), { exitCode: 1 })
    expect(failureOf({ conditions: [DEADLINE], pod })).toMatchObject({
      code: 'timed_out',
      message: 'copying blob',
    })
  })
})

describe('a bake that was told to end, and says so itself,', () => {
  const canceled = text({
    ...FAILURE,
    services: [{ name: 'api', verified: { at: '2026-01-31T12:00:00.000Z', ok: true } }],
    failure: { step: 'pull', code: 'canceled', message: 'The bake was stopped.' },
  })
  const told = (status: object) =>
    withState(
      { terminated: { exitCode: 1, reason: 'Error', message: canceled } },
      { phase: 'Failed', ...status },
    )
  const disruption = {
    type: 'DisruptionTarget',
    status: 'True',
    reason: 'EvictionByEvictionAPI',
    message: 'drained',
  }

  test.for([
    ['by a node in need', { reason: 'Evicted', message: 'The node was low on resource: memory.' }, 'evicted'],
    ['by a node that is shut down', { reason: 'Terminated', message: 'imminent node shutdown' }, 'evicted'],
    ['by a drain', { conditions: [disruption] }, 'evicted'],
    [
      'by a full volume',
      { reason: 'Evicted', message: 'EmptyDir volume "output" exceeds the limit "20Gi"' },
      'out_of_disk',
    ],
    ['by the deadline of its pod', { reason: 'DeadlineExceeded', message: 'Pod was active' }, 'timed_out'],
    ['by nobody that Kubernetes knows', {}, 'canceled'],
  ] as const)('was ended %s', ([, status, code]) => {
    expect(failureOf({ conditions: [FAILED], pod: told(status) })).toMatchObject({ code })
  })

  test('was ended at the deadline of its Job', () => {
    expect(failureOf({ conditions: [DEADLINE], pod: told({}) })).toMatchObject({ code: 'timed_out' })
  })

  test('keeps what the registry said of credentials', () => {
    const found = progressOf({ conditions: [FAILED], pod: told({ reason: 'Evicted' }) })
    expect(found).toMatchObject({ outcome: { services: [{ name: 'api', verified: { ok: true } }] } })
  })
})

describe('a Job that failed has succeeded where its bake says so, whose last word that is:', () => {
  const ended = (exitCode: number, status: object = {}) =>
    withState({ terminated: { exitCode, message: text(SUCCESS) } }, { phase: 'Failed', ...status })

  test.for([
    ['something else in the pod did not end', FAILED, ended(0)],
    ['something else was not done at the deadline', DEADLINE, ended(0)],
    ['it was killed after that', FAILED, ended(137)],
    ['its node ended it after that', FAILED, ended(143, { reason: 'Evicted', message: 'low on memory' })],
  ] as const)('%s', ([, condition, pod]) => {
    expect(progressOf({ conditions: [condition], pod })).toEqual({
      state: 'ended',
      outcome: { services: SUCCESS.services },
    })
  })
})

test('a pod runs until its Job has heard of its end', () => {
  expect(progressOf({ pod: withState({ running: {} }, { phase: 'Running' }) })).toEqual({ state: 'running' })
  expect(progressOf({ pod: terminated(text(SUCCESS)) })).toEqual({ state: 'running' })
  expect(progressOf({ pod: podOf({ phase: 'Failed', reason: 'Evicted' }) })).toEqual({ state: 'running' })
})

test('a container of somebody else is not listened to', () => {
  const pod = podOf({
    phase: 'Succeeded',
    containerStatuses: [{ name: 'istio-proxy', state: { terminated: { message: text(SUCCESS) } } }],
  })
  expect(failureOf({ conditions: [COMPLETE], pod })).toMatchObject({ code: 'no_result' })
})

test('whatever the message is, it is a result or a failure in words', () => {
  const odd = fc.oneof(
    fc.string({ unit: 'binary', maxLength: 200 }),
    fc.json({ maxDepth: 3 }),
    fc
      .record(
        {
          version: fc.constant(1),
          state: fc.constantFrom('succeeded', 'failed'),
          services: fc.anything(),
          failure: fc.anything(),
        },
        { requiredKeys: [] },
      )
      .map((value) => text(value) ?? ''),
  )
  fc.assert(
    fc.property(odd, fc.constantFrom(COMPLETE, FAILED, DEADLINE), (message, condition) => {
      const pod = terminated(message, { exitCode: condition === COMPLETE ? 0 : 1 })
      const found = progressOf({ conditions: [condition], pod })
      expect(found.state).toBe('ended')
      expect(failureOf({ conditions: [condition], pod })?.fix).toBeTruthy()
    }),
    { numRuns: 2000 },
  )
})
