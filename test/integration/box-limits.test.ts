/** The limit of simultaneous bakes, and obstacles of a Job, on the real API server. */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { BoxTemplate } from '../../src/apis/box-template.ts'
import { jobs, pods } from '../../src/apis/core-kinds.ts'
import { bakeName } from '../../src/boxes/controller/bake-job.ts'
import { code, conditionsOf, DB, startBakingDavit, state } from '../support/baking-davit.ts'
import { JobStandIn } from '../support/job-stand-in.ts'
import { forbidMore } from '../support/object-quota.ts'
import type { SecretsBed } from '../support/secrets-bed.ts'

let secrets: SecretsBed
let bed: JobStandIn

beforeAll(async () => {
  const env = { DAVIT_MAX_BAKES_PER_ORGANIZATION: '1' }
  ;({ secrets, bed } = await startBakingDavit('box-limits', { env }))
})

afterAll(async () => {
  await secrets?.stop()
})

const waits = (template: BoxTemplate) => conditionsOf(template).Reconciling === 'True Waiting'

describe('an organization that may have one bake at a time', () => {
  test('has one, and the others wait in the order in which they came', async () => {
    await bed.make('one', { services: [DB] })
    await bed.job('one')
    await bed.make('two', { services: [DB] })
    const two = await bed.templateWhen('two', waits)
    expect(two.status?.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({
      status: 'False',
      reason: 'Waiting',
      message: expect.stringContaining('DAVIT_MAX_BAKES_PER_ORGANIZATION'),
    })
    await bed.make('three', { services: [DB] })
    await bed.templateWhen('three', waits)
    expect([await bed.jobs('two'), await bed.jobs('three')]).toEqual([[], []])
    await bed.succeed('one')
    await bed.job('two')
    expect(await bed.jobs('three')).toEqual([])
    expect(waits(await bed.templateWhen('three', () => true))).toBe(true)
  })

  test('keeps nobody else from baking', async () => {
    const { otherOrganization } = secrets.davit
    if (!otherOrganization) throw new Error('no neighbour')
    const other = new JobStandIn(otherOrganization.api, otherOrganization.organization)
    await other.make('theirs', { services: [DB] })
    await other.succeed('theirs')
    await other.templateWhen('theirs', state('succeeded'))
  })

  test('has no second one after a restart', async () => {
    await secrets.davit.restart()
    await bed.make('four', { services: [DB] })
    await bed.templateWhen('four', waits)
    await bed.templateWhen('three', waits)
    expect([await bed.jobs('three'), await bed.jobs('four')]).toEqual([[], []])
    // Who asked first is not known any more.
    await Promise.all(['two', 'three', 'four'].map((name) => bed.succeed(name)))
    for (const name of ['three', 'four']) await bed.templateWhen(name, state('succeeded'))
  })

  test('goes on when a template is deleted in the middle of its bake', async () => {
    await bed.make('deleted', { services: [DB] })
    await bed.job('deleted')
    await bed.make('next', { services: [DB] })
    await bed.templateWhen('next', waits)
    await bed.remove('deleted')
    await bed.succeed('next')
    await bed.templateWhen('next', state('succeeded'))
  })
})

function foreignJob(name: string) {
  const spec = { template: { spec: { restartPolicy: 'Never', containers: [{ name: 'a', image: 'a' }] } } }
  return { apiVersion: 'batch/v1', kind: 'Job', metadata: { namespace: bed.organization, name }, spec }
}

test('a bake whose Job a quota does not let be made fails in its words, and is tried again', async () => {
  const { api, clock } = secrets.davit
  const quota = await forbidMore(api, jobs, foreignJob('probe'))
  await bed.make('full', { services: [DB] })
  const { status } = await bed.templateWhen('full', code('quota'))
  expect(status?.bake).toMatchObject({
    attempts: 1,
    failure: { step: 'start', message: expect.stringContaining('exceeded quota: no-jobs') },
    nextAttemptAt: expect.any(String),
  })
  await quota.lift()
  clock.jump(31_000)
  await bed.succeed('full')
  expect((await bed.templateWhen('full', state('succeeded'))).status?.bake?.attempts).toBe(2)
})

test('a Job of somebody else under the name of a bake stays, and the failure says so', async () => {
  const name = 'collides'
  await bed.make(name, { services: [DB], output: { persistentVolumeClaim: 'late' } })
  const { metadata } = await bed.templateWhen(name, code('output_missing'))
  const { uid, generation = 1 } = metadata
  const taken = bakeName({ template: name, uid, generation, rebake: undefined, number: 1 })
  const { api } = secrets.davit
  await api.create(jobs, foreignJob(taken))
  await bed.claim('late')
  await bed.wake(name)
  const failed = await bed.templateWhen(name, code('pod_rejected'))
  expect(failed.status?.bake?.failure?.message).toContain(`a Job ${taken}`)
  await api.get(jobs, { namespace: bed.organization, name: taken })
  // Another request has another name.
  await bed.change(name, {
    metadata: { annotations: { 'davit.dev/rebake-requested-at': secrets.davit.time() } },
  })
  await bed.succeed(name)
  await bed.templateWhen(name, state('succeeded'))
})

describe('the API server', () => {
  test('takes the pod of a bake where only restricted pods may run, and no pod that is less so', async () => {
    await bed.make('restricted', { services: [DB] })
    const job = await bed.job('restricted')
    await bed.run(job)
    const { spec } = job.spec.template as { spec: { containers: object[]; securityContext: object } }
    const [container] = spec.containers as { securityContext: object }[]
    const less: [without: string, spec: object][] = [
      [
        'seccompProfile',
        { ...spec, securityContext: {}, containers: [{ ...container, securityContext: {} }] },
      ],
      ['allowPrivilegeEscalation', { ...spec, containers: [{ ...container, securityContext: {} }] }],
      ['hostNetwork', { ...spec, hostNetwork: true }],
    ]
    for (const [words, changed] of less) {
      const metadata = { namespace: bed.organization, name: `less-${words.toLowerCase()}` }
      const made = secrets.davit.api.create(pods, { apiVersion: 'v1', kind: 'Pod', metadata, spec: changed })
      await expect(made).rejects.toMatchObject({
        kind: 'Forbidden',
        message: expect.stringContaining('restricted'),
      })
    }
    await bed.succeed('restricted', (await bed.pods('restricted'))[0])
    await bed.templateWhen('restricted', state('succeeded'))
  })
})
