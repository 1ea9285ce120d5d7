/** Bakes on the real API server (interface §2.2, §3.3, §7), with a stand-in for the controller of Jobs and the kubelet. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { registryCredentials } from '../../src/apis/registry-credential.ts'
import { API, conditionsOf, DB, ECR, ROLE_OF_BOX, startBakingDavit, state } from '../support/baking-davit.ts'
import { DIGEST, type JobStandIn, orderOf } from '../support/job-stand-in.ts'
import { isReady, reasonOf, type SecretsBed } from '../support/secrets-bed.ts'

let secrets: SecretsBed
let bed: JobStandIn

beforeAll(async () => {
  ;({ secrets, bed } = await startBakingDavit('box-template'))
})

afterAll(async () => {
  await secrets?.stop()
})

const clock = () => secrets.davit.clock

const WRONG_PASSWORD = {
  service: 'api',
  step: 'pull',
  code: 'wrong_credentials',
  message: 'reading manifest 1.4 in ghcr.io/acme/api: unauthorized: authentication required',
} as const

describe('a bake', () => {
  test('goes from pending by running to succeeded, and says what was pulled with what, and why', async () => {
    await bed.make('first', {
      services: [API, DB],
      ...ROLE_OF_BOX,
      output: { persistentVolumeClaim: 'boxes' },
    })
    const job = await bed.job('first')
    const pending = await bed.templateWhen('first', state('pending'))
    expect(pending.status?.bake?.job).toBe(job.metadata.name)
    const pod = await bed.run(job)
    const baking = await bed.templateWhen('first', state('running'))
    expect(conditionsOf(baking)).toMatchObject({
      Ready: 'False Baking',
      Reconciling: 'True Baking',
      Stalled: 'absent',
    })
    await bed.succeed('first', pod)
    const done = await bed.templateWhen('first', state('succeeded'))
    expect(conditionsOf(done)).toEqual({
      Ready: 'True Baked',
      Succeeded: 'True Baked',
      Reconciling: 'absent',
      Stalled: 'absent',
      Current: 'True UpToDate',
    })
    expect(done.status).toMatchObject({
      observedGeneration: 1,
      bake: {
        attempts: 1,
        generation: 1,
        services: [
          {
            name: 'api',
            image: `${ECR}/acme/api:1.4`,
            digest: DIGEST,
            credential: {
              id: 'rc_ecr',
              why: `The service references rc_ecr, which is for ${ECR}, the host of the service's image.`,
            },
          },
          { name: 'db', image: 'docker.io/library/postgres:17', digest: DIGEST },
        ],
      },
    })
  })

  test('has a Job that the API server takes as it was meant, owned by the template', async () => {
    const [job] = await bed.jobs('first')
    const template = await bed.templateWhen('first', () => true)
    expect(job?.metadata.ownerReferences).toMatchObject([{ kind: 'BoxTemplate', uid: template.metadata.uid }])
    expect(job?.spec.template.spec).toMatchObject({
      serviceAccountName: 'box',
      automountServiceAccountToken: false,
      containers: [{ securityContext: { readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } } }],
    })
    expect(job && orderOf(job)).toMatchObject({
      services: [{ name: 'api', credential: { id: 'rc_ecr', type: 'ecr', registry: ECR } }, { name: 'db' }],
      output: { kind: 'layout' },
      realms: ['auth.example.com'],
    })
  })

  test('tells its credential that the registry took it, and the two loops keep what the other wrote', async () => {
    const verified = await secrets.credentialWhen('ecr', (seen) => reasonOf(seen, 'Verified') === 'Pulled')
    expect(verified.status?.verified).toMatchObject({
      ok: true,
      repository: `${ECR}/acme/api`,
      template: 'first',
    })
    expect(isReady(verified)).toBe(true)
    await secrets.davit.api.patch(
      registryCredentials,
      { namespace: bed.organization, name: 'ecr' },
      { spec: { label: 'Another' } },
    )
    const changed = await secrets.credentialWhen(
      'ecr',
      (seen) => reasonOf(seen, 'Verified') === 'ChangedSince',
    )
    expect(changed.status?.verified).toEqual(verified.status?.verified)
  })

  test('of a template that succeeded is not repeated when a credential changes', async () => {
    const { status } = await bed.templateWhen('first', state('succeeded'))
    expect(status?.bake?.number).toBe(1)
    expect(await bed.jobs('first')).toHaveLength(1)
  })

  test('is repeated when it is asked for, once for each value', async () => {
    const annotations = { 'davit.dev/rebake-requested-at': secrets.davit.time() }
    await bed.change('first', { metadata: { annotations } })
    await bed.succeed('first')
    const again = await bed.templateWhen(
      'first',
      ({ status }) => status?.bake?.number === 2 && status.bake.state === 'succeeded',
    )
    expect(again.status?.bake?.observedRebake).toBe(annotations['davit.dev/rebake-requested-at'])
    expect(await bed.jobs('first')).toHaveLength(2)
  })

  test('is not for a request that is no time, which is told of', async () => {
    const annotations = { 'davit.dev/rebake-requested-at': 'now' }
    await bed.change('first', { metadata: { annotations } })
    await bed.templateWhen('first', ({ status }) => status?.bake?.observedRebake === 'now')
    const event = await secrets.davit.eventSeen('first', 'RequestRefused')
    expect(event.message).toContain('davit.dev/rebake-requested-at: "now" is not a valid time.')
    expect(await bed.jobs('first')).toHaveLength(2)
  })
})

describe('a box with two credentials for one host', () => {
  test('has each service pulled with its own, and says which and why', async () => {
    await secrets.handOver('other-handover', 'the-value-of-the-other')
    await secrets.credential('other', { username: 'other', secretRef: { name: 'other-handover' } })
    await secrets.credentialWhen('other', isReady)
    const service = (name: string, id: string) => ({
      name,
      kind: 'custom',
      image: `ghcr.io/${name}/api:1`,
      registryCredentialId: id,
    })
    await bed.make('two', {
      services: [service('acme', 'rc_ghcr'), service('tools', 'rc_other'), DB],
      ...ROLE_OF_BOX,
    })
    const order = orderOf(await bed.job('two'))
    expect(order.services.map(({ credential }) => credential)).toMatchObject([
      { id: 'rc_ghcr', registry: 'ghcr.io', username: 'bot', parameter: { version: 1 } },
      { id: 'rc_other', registry: 'ghcr.io', username: 'other', parameter: { version: 1 } },
      undefined,
    ])
    await bed.succeed('two')
    const { status } = await bed.templateWhen('two', state('succeeded'))
    const because = (id: string, other: string) =>
      `The service references ${id}, which is for ghcr.io, the host of the service's image. Other services use ${other} for that host; Davit never uses the credential of one service for another.`
    expect(status?.bake?.services?.map(({ credential }) => credential)).toMatchObject([
      { id: 'rc_ghcr', parameterVersion: 1, why: because('rc_ghcr', 'rc_other') },
      { id: 'rc_other', parameterVersion: 1, why: because('rc_other', 'rc_ghcr') },
      undefined,
    ])
    for (const [name, repository] of [
      ['ghcr', 'ghcr.io/acme/api'],
      ['other', 'ghcr.io/tools/api'],
    ] as const) {
      const verified = await secrets.credentialWhen(name, (seen) => reasonOf(seen, 'Verified') === 'Pulled')
      expect(verified.status?.verified).toMatchObject({ repository, template: 'two' })
    }
  })
})

describe('a change in the middle of a bake', () => {
  test('is picked up after it', async () => {
    await bed.make('middle', { services: [DB] })
    const pod = await bed.run(await bed.job('middle'))
    await bed.templateWhen('middle', state('running'))
    await bed.change('middle', { spec: { services: [{ ...DB, image: 'postgres:18' }] } })
    const seen = await bed.templateWhen('middle', ({ status }) => status?.observedGeneration === 2)
    expect(seen.status?.bake).toMatchObject({ state: 'running', generation: 1 })
    expect(await bed.jobs('middle')).toHaveLength(1)
    await bed.succeed('middle', pod)
    const second = await bed.templateWhen('middle', ({ status }) => status?.bake?.generation === 2)
    expect(conditionsOf(second)).toMatchObject({ Ready: 'False Baking' })
    const job = await bed.job('middle')
    expect(orderOf(job).services).toEqual([{ name: 'db', image: 'docker.io/library/postgres:18' }])
    await bed.succeed('middle')
    expect(conditionsOf(await bed.templateWhen('middle', state('succeeded')))).toMatchObject({
      Ready: 'True Baked',
    })
  })
})

describe('a failure', () => {
  test('has the words of the tool and what to do, and is told to the credential', async () => {
    const api = { ...API, image: 'ghcr.io/acme/api:1.4', registryCredentialId: 'rc_ghcr' }
    await bed.make('wrong', { services: [api, DB], ...ROLE_OF_BOX })
    await bed.fail('wrong', WRONG_PASSWORD)
    const template = await bed.templateWhen('wrong', state('failed'))
    expect(template.status?.bake).toMatchObject({
      failure: { ...WRONG_PASSWORD, fix: expect.stringContaining('Provide a new secret for the credential') },
      services: [{ name: 'api', credential: { id: 'rc_ghcr', parameterVersion: 1 } }, { name: 'db' }],
    })
    expect(JSON.stringify(template.status)).not.toContain('digest')
    expect(conditionsOf(template)).toEqual({
      Ready: 'False WrongCredentials',
      Succeeded: 'False WrongCredentials',
      Reconciling: 'absent',
      Stalled: 'True WrongCredentials',
      Current: 'Unknown NotBaked',
    })
    const credential = await secrets.credentialWhen(
      'ghcr',
      (seen) => reasonOf(seen, 'Verified') === 'WrongCredentials',
    )
    expect(credential.status?.conditions?.find(({ type }) => type === 'Verified')?.status).toBe('False')
    expect(isReady(credential)).toBe(true)
  })

  test('is not repeated by itself', async () => {
    clock().jump(3_600_000)
    await bed.change('wrong', { metadata: { labels: { seen: 'again' } } })
    await bed.templateWhen('wrong', state('failed'))
    expect(await bed.jobs('wrong')).toHaveLength(1)
  })

  test('is repeated when its credential has a new secret', async () => {
    await secrets.handOver('ghcr-handover', 'the-value-2')
    await secrets.credentialWhen('ghcr', (seen) => seen.status?.parameter?.version === 2)
    await bed.succeed('wrong')
    const { status } = await bed.templateWhen('wrong', state('succeeded'))
    expect(status?.bake?.services?.[0]?.credential).toMatchObject({ parameterVersion: 2 })
    await secrets.credentialWhen('ghcr', (seen) => reasonOf(seen, 'Verified') === 'Pulled')
  })
})
