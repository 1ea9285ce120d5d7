/** How the pods of bakes end, and what ends them, on the real API server, with a stand-in for the controller of Jobs and the kubelet. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { failed, running, waiting } from '../../playground/bakes/run-statuses.ts'
import { jobs, pods, serviceAccounts } from '../../src/apis/core-kinds.ts'
import { code, conditionsOf, DB, startBakingDavit, state } from '../support/baking-davit.ts'
import type { JobStandIn } from '../support/job-stand-in.ts'
import type { SecretsBed } from '../support/secrets-bed.ts'
import { until } from '../support/until.ts'

let secrets: SecretsBed
let bed: JobStandIn

beforeAll(async () => {
  ;({ secrets, bed } = await startBakingDavit('box-pods'))
})

afterAll(async () => {
  await secrets?.stop()
})

const clock = () => secrets.davit.clock

describe('a pod', () => {
  const ends: [given: string, end: (name: string) => Promise<void>, wanted: string, words: string][] = [
    [
      'that left garbage',
      async (name) => bed.end(await bed.job(name), { message: 'panic: no', exitCode: 1 }),
      'no_result',
      'an unreadable result',
    ],
    [
      'that left nothing',
      async (name) => bed.end(await bed.job(name)),
      'no_result',
      'did not report a result',
    ],
    [
      'that was out of memory',
      async (name) => bed.end(await bed.job(name), { exitCode: 137, reason: 'OOMKilled' }),
      'out_of_memory',
      'OOMKilled',
    ],
    [
      'that took too long',
      async (name) =>
        bed.jobStatus(
          await bed.job(name),
          failed('DeadlineExceeded', 'Job was active longer than specified deadline'),
        ),
      'timed_out',
      'longer than specified deadline',
    ],
  ]

  test.for(ends)('%s fails the bake', async ([given, end, wanted, words]) => {
    const name = given.replaceAll(' ', '-')
    await bed.make(name, { services: [DB] })
    await end(name)
    const { status } = await bed.templateWhen(name, state('failed'))
    expect(status?.bake?.failure).toMatchObject({
      code: wanted,
      step: 'start',
      message: expect.stringContaining(words),
    })
    expect(status?.bake?.nextAttemptAt).toBeUndefined()
  })

  test('that is evicted is tried again, three times in all', async () => {
    await bed.make('evicted', { services: [DB] })
    for (const attempts of [1, 2, 3]) {
      const job = await bed.job('evicted')
      const pod = await bed.run(job)
      await bed.podStatus(pod, {
        phase: 'Failed',
        reason: 'Evicted',
        message: 'The node was low on resource: memory.',
      })
      await bed.jobStatus(job, failed())
      const { status } = await bed.templateWhen(
        'evicted',
        ({ status }) => status?.bake?.state === 'failed' && status.bake.attempts === attempts,
      )
      expect(status?.bake?.failure).toMatchObject({
        code: 'evicted',
        message: 'The node was low on resource: memory.',
      })
      expect(status?.bake?.nextAttemptAt === undefined).toBe(attempts === 3)
      clock().jump(121_000)
    }
    expect(conditionsOf(await bed.templateWhen('evicted', state('failed')))).toMatchObject({
      Stalled: 'True Evicted',
    })
  })

  test.for([
    [
      'whose image is not to be had',
      waiting('ImagePullBackOff', 'Back-off pulling image "davit:1"'),
      121_000,
      'bake_image_missing',
    ],
    [
      'that no node takes',
      {
        phase: 'Pending',
        conditions: [
          {
            type: 'PodScheduled',
            status: 'False',
            reason: 'Unschedulable',
            message: '0/3 nodes are available',
          },
        ],
      },
      601_000,
      'unschedulable',
    ],
  ] as const)(
    '%s is given up, its Job is removed, and another one is made later',
    async ([, podStatus, ms, wanted]) => {
      const name = `stuck-${wanted.replaceAll('_', '-')}`
      await bed.make(name, { services: [DB] })
      const job = await bed.job(name)
      await bed.pod(job, podStatus)
      await bed.templateWhen(name, state('pending'))
      clock().jump(ms)
      await bed.templateWhen(name, code(wanted))
      await bed.withoutJobs(name)
      clock().jump(31_000)
      await bed.collect()
      clock().jump(11_000)
      await bed.succeed(name)
      expect((await bed.templateWhen(name, state('succeeded'))).status?.bake?.attempts).toBe(2)
    },
  )

  test('that a quota does not let be made is a failure in the words of Kubernetes', async () => {
    await bed.make('quota', { services: [DB] })
    await bed.refusePod(
      await bed.job('quota'),
      'Error creating: pods "x" is forbidden: exceeded quota: pods, requested: pods=1',
    )
    clock().jump(61_000)
    const { status } = await bed.templateWhen('quota', code('quota'))
    expect(status?.bake?.failure?.message).toContain('exceeded quota: pods')
    expect(status?.bake?.nextAttemptAt).toBeDefined()
  })
})

describe('a bake is tried again', () => {
  test('when its node could not start the pod, in the words of that', async () => {
    await bed.make('no-mount', { services: [DB] })
    const job = await bed.job('no-mount')
    const pod = await bed.pod(job, waiting('ContainerCreating', ''))
    const words = 'MountVolume.SetUp failed for volume "output" : timed out'
    await bed.failMount(pod, words, clock().now() + 590_000)
    clock().jump(601_000)
    await bed.wake('no-mount')
    const { status } = await bed.templateWhen('no-mount', code('not_started'))
    expect(status?.bake?.failure?.message).toContain('MountVolume.SetUp failed')
    await bed.withoutJobs('no-mount')
    await bed.collect()
    clock().jump(31_000)
    await bed.succeed('no-mount')
    await bed.templateWhen('no-mount', state('succeeded'))
  })

  test('when its pod went with its node', async () => {
    await bed.make('lost', { services: [DB] })
    const job = await bed.job('lost')
    const name = await bed.run(job)
    await bed.templateWhen('lost', state('running'))
    await secrets.davit.api.delete(pods, { namespace: bed.organization, name })
    await bed.jobStatus(job, failed())
    await bed.templateWhen('lost', code('evicted'))
    clock().jump(31_000)
    await bed.succeed('lost')
    expect((await bed.templateWhen('lost', state('succeeded'))).status?.bake?.attempts).toBe(2)
  })

  test('when its ServiceAccount went before the pod was made, as soon as that is there again', async () => {
    const { api } = secrets.davit
    await bed.account('short-lived')
    await bed.make('no-account', { services: [DB], instanceRole: { serviceAccountName: 'short-lived' } })
    const job = await bed.job('no-account')
    await api.delete(serviceAccounts, { namespace: bed.organization, name: 'short-lived' })
    await bed.refusePod(job, 'Error creating: pods "x" is forbidden: serviceaccount "short-lived" not found')
    clock().jump(61_000)
    await bed.templateWhen('no-account', code('service_account_missing'))
    await bed.withoutJobs('no-account')
    clock().jump(31_000)
    await bed.templateWhen('no-account', ({ status }) => status?.bake?.failure?.step === 'check')
    await bed.account('short-lived')
    await bed.wake('no-account')
    await bed.succeed('no-account')
    await bed.templateWhen('no-account', state('succeeded'))
  })
})

describe('deleting', () => {
  test('the Job in the middle of a bake cancels it', async () => {
    await bed.make('canceled', { services: [DB] })
    const job = await bed.job('canceled')
    await bed.run(job)
    await bed.templateWhen('canceled', state('running'))
    await secrets.davit.api.delete(
      jobs,
      { namespace: bed.organization, name: job.metadata.name },
      {},
      { dependents: 'Background' },
    )
    const { status } = await bed.templateWhen('canceled', state('failed'))
    expect(status?.bake?.failure?.code).toBe('canceled')
    await bed.collect()
  })

  test('the template in the middle of a bake leaves its Job to its owner reference, and another of its name waits for it', async () => {
    await bed.make('deleted', { services: [DB] })
    const job = await bed.job('deleted')
    const pod = await bed.run(job)
    await bed.templateWhen('deleted', state('running'))
    await bed.remove('deleted')
    await bed.make('deleted', { services: [DB] })
    // There is no garbage collector here: the Job of the one before is removed, since two would bake into one place.
    await until(
      async () =>
        (await bed.jobs('deleted')).every(({ metadata }) => metadata.uid !== job.metadata.uid) || undefined,
      () => 'the old Job is still there',
    )
    expect(await bed.jobs('deleted')).toEqual([])
    await bed.podStatus(pod, { ...running(), phase: 'Failed' })
    await bed.collect()
    await bed.succeed('deleted')
    expect((await bed.templateWhen('deleted', state('succeeded'))).status?.bake?.number).toBe(1)
  })
})

test('deleting a template ends its bake, though a finalizer of somebody else holds it', async () => {
  await bed.make('held', { services: [DB] })
  await bed.change('held', { metadata: { finalizers: ['example.com/holds'] } })
  await bed.run(await bed.job('held'))
  await bed.templateWhen('held', state('running'))
  await bed.remove('held')
  await bed.withoutJobs('held')
  await bed.change('held', { metadata: { finalizers: null } })
  await bed.collect()
})

test('a controller that starts anew goes on where the one before was', async () => {
  await bed.make('restarted', { services: [DB] })
  const pod = await bed.run(await bed.job('restarted'))
  await bed.templateWhen('restarted', state('running'))
  await secrets.davit.controller.stop()
  await bed.succeed('restarted', pod)
  await secrets.davit.startController()
  const { status } = await bed.templateWhen('restarted', state('succeeded'))
  expect(status?.bake?.number).toBe(1)
  expect(await bed.jobs('restarted')).toHaveLength(1)
})
