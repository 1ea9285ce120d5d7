import { beforeEach, describe, expect, test } from 'vitest'
import {
  AT,
  CREDENTIAL,
  DIGEST,
  LABELS,
  READY,
  SUCCESS,
  TEMPLATE,
  TemplateBed,
} from '../../../test/support/template-bed.ts'
import { boxTemplates } from '../../apis/box-template.ts'
import { jobs, pods } from '../../apis/core-kinds.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'
import { ApiError, type ApiErrorKind } from '../../kube/client.ts'

let bed: TemplateBed

beforeEach(async () => {
  bed = await TemplateBed.make()
})

/** Somebody has deleted the template, and a finalizer holds it. */
function leave(): void {
  const held = bed.book.get('acme', 'shop')
  if (!held) throw new Error('no template')
  bed.book.apply({ ...held, metadata: { ...held.metadata, resourceVersion: '9999', deletionTimestamp: AT } })
}

function refuse(kind: ApiErrorKind) {
  return () => {
    throw new ApiError(kind, 'the words of the API server')
  }
}

describe('a pass', () => {
  test('makes the Job, and the next ones write nothing while nothing happens', async () => {
    expect(await bed.pass()).toEqual({ afterMs: 60_000 })
    expect(bed.store.all(jobs)).toHaveLength(1)
    const { version } = bed.store
    await bed.pass()
    await bed.pass()
    expect(bed.store.version).toBe(version)
    expect(bed.events.map(({ reason }) => reason)).toEqual(['BakeStarted'])
  })

  test('takes the result in, tells the credential, and is done', async () => {
    await bed.pass()
    await bed.endJob(SUCCESS)
    expect(await bed.pass()).toEqual({ afterMs: undefined })
    expect((await bed.status())?.bake).toMatchObject({ state: 'succeeded', services: [{ digest: DIGEST }] })
    const of = await bed.credentialStatus()
    expect(of?.verified).toMatchObject({
      at: AT,
      ok: true,
      repository: 'ghcr.io/acme/api',
      parameterVersion: 3,
    })
    expect(of?.conditions).toEqual(READY.conditions)
    expect(bed.baked).toEqual(['succeeded'])
    const { version } = bed.store
    await bed.pass()
    expect(bed.store.version).toBe(version)
  })

  test.for(['jobs', 'pods'])('in whose middle the bake ends (%s) loses no result', async (plural) => {
    await bed.pass()
    bed.store.once('list', plural, () => bed.endJob(SUCCESS))
    await bed.pass()
    await bed.pass()
    expect((await bed.status())?.bake).toMatchObject({ state: 'succeeded', services: [{ digest: DIGEST }] })
  })

  test('over a template that is not there, or is being deleted, makes nothing', async () => {
    expect(await bed.pass('acme/other')).toEqual({ afterMs: undefined })
    leave()
    expect(await bed.pass()).toEqual({ afterMs: undefined })
    expect(bed.store.all(jobs)).toEqual([])
  })

  test('over a template that is being deleted ends its bake, whatever holds it still', async () => {
    await bed.pass()
    await bed.makeJob({ name: 'of-somebody-else' })
    leave()
    expect(await bed.pass()).toEqual({ afterMs: undefined })
    expect(bed.store.all(jobs).map(({ metadata }) => metadata.name)).toEqual(['of-somebody-else'])
    expect(bed.turns.taken).toBe(0)
  })

  test('over a template that goes meanwhile ends quietly', async () => {
    bed.store.once('patch', 'boxtemplates', () => bed.store.delete(boxTemplates, TEMPLATE))
    expect(await bed.pass()).toEqual({ afterMs: undefined })
    expect(bed.store.all(jobs)).toEqual([])
  })

  test('over a template that was made again meanwhile leaves that one alone', async () => {
    bed.store.once('patch', 'boxtemplates', async () => {
      await bed.store.delete(boxTemplates, TEMPLATE)
      await bed.store.create(boxTemplates, { metadata: TEMPLATE, spec: bed.book.get('acme', 'shop')?.spec })
    })
    expect(await bed.pass()).toEqual({ afterMs: undefined })
    expect(bed.store.all(jobs)).toEqual([])
    expect(await bed.status()).toBeUndefined()
  })

  test('reads again what somebody else has changed meanwhile', async () => {
    bed.store.once('patch', 'boxtemplates', async () => {
      await bed.store.patch(boxTemplates, TEMPLATE, { metadata: { labels: { a: 'b' } } })
    })
    await bed.pass()
    expect(bed.store.all(jobs)).toHaveLength(1)
    expect((await bed.status())?.bake).toMatchObject({ state: 'pending', number: 1 })
  })

  test('in a namespace that is no organization makes nothing', async () => {
    bed.organizations.remove({ name: 'acme' })
    await bed.pass()
    expect((await bed.status())?.bake?.failure).toMatchObject({ step: 'check', code: 'not_an_organization' })
    expect(bed.store.all(jobs)).toEqual([])
    expect(bed.baked).toEqual(['not_an_organization'])
  })
})

describe('a Job', () => {
  test.for([
    ['Quota', 'quota', true],
    ['Forbidden', 'pod_rejected', false],
    ['Invalid', 'pod_rejected', false],
  ] as const)(
    'that the API server refuses with %s is a failure in its words',
    async ([kind, code, again]) => {
      bed.store.once('create', 'jobs', refuse(kind))
      const { afterMs } = await bed.pass()
      const bake = (await bed.status())?.bake
      expect(bake).toMatchObject({
        state: 'failed',
        failure: { step: 'start', code, message: 'the words of the API server' },
      })
      expect(afterMs).toBe(again ? 30_000 : undefined)
      bed.clock.advance(30_000)
      await bed.pass()
      expect(bed.store.all(jobs)).toHaveLength(again ? 1 : 0)
    },
  )

  test('that a policy denied is tried again, since the policy or its parameters may have been outdated', async () => {
    bed.store.once('create', 'jobs', () => {
      throw new ApiError('Forbidden', 'denied', { isByPolicy: true })
    })
    expect(await bed.pass()).toEqual({ afterMs: 30_000 })
    expect((await bed.status())?.bake?.failure).toMatchObject({ code: 'pod_rejected', message: 'denied' })
    bed.clock.advance(30_000)
    await bed.pass()
    expect((await bed.status())?.bake).toMatchObject({ state: 'pending', attempts: 2 })
  })

  test.for(['Unavailable', 'Terminating'] as const)(
    'that could not be made (%s) is made later',
    async (kind) => {
      bed.store.once('create', 'jobs', refuse(kind))
      await expect(bed.pass()).rejects.toMatchObject({ kind })
      await bed.pass()
      expect(bed.store.all(jobs)).toHaveLength(1)
      expect((await bed.status())?.bake).toMatchObject({ state: 'pending', number: 1, attempts: 1 })
    },
  )

  test('that was made without an answer is found, and made once', async () => {
    bed.store.once('create', 'jobs', async () => {
      const bake = (await bed.status())?.bake
      const uid = bed.book.get('acme', 'shop')?.metadata.uid
      const ownerReferences = [{ kind: 'BoxTemplate', name: 'shop', uid }]
      await bed.makeJob({ name: bake?.job ?? '', labels: LABELS, ownerReferences })
    })
    await bed.pass()
    expect(bed.store.all(jobs)).toHaveLength(1)
    expect((await bed.status())?.bake?.state).toBe('pending')
  })

  test('whose labels somebody has changed is a failure that says so, and is not made again and again', async () => {
    await bed.pass()
    const [job] = bed.store.all(jobs)
    const labels = { 'davit.dev/box-template': 'another' }
    await bed.store.patch(
      jobs,
      { namespace: 'acme', name: job?.metadata.name ?? '' },
      { metadata: { labels } },
    )
    await bed.pass()
    expect((await bed.status())?.bake?.failure).toMatchObject({
      code: 'pod_rejected',
      message: expect.stringContaining('labels that Davit uses to find the Job'),
    })
  })

  test('of somebody else under its name is a failure that says so', async () => {
    bed.store.once('create', 'jobs', async () => {
      const name = (await bed.status())?.bake?.job ?? ''
      await bed.makeJob({ name })
    })
    await bed.pass()
    expect((await bed.status())?.bake?.failure).toMatchObject({
      code: 'pod_rejected',
      message: expect.stringContaining('did not create'),
    })
  })
})

describe('a turn', () => {
  test('is waited for while others of the organization bake, which the status says', async () => {
    bed.turns.occupy('acme/other')
    expect(await bed.pass()).toEqual({ afterMs: 60_000 })
    const waiting = await bed.status()
    expect(waiting?.bake).toBeUndefined()
    expect(waiting?.conditions?.find(({ type }) => type === 'Reconciling')).toMatchObject({
      status: 'True',
      reason: 'Waiting',
      message: expect.stringContaining('DAVIT_MAX_BAKES_PER_ORGANIZATION is 1'),
    })
    expect(bed.store.all(jobs)).toEqual([])
    const { version } = bed.store
    await bed.pass()
    expect(bed.store.version).toBe(version)
    bed.turns.release('acme/other')
    await bed.pass()
    expect(bed.store.all(jobs)).toHaveLength(1)
  })

  test('is waited for while too many bake in all', async () => {
    for (const other of ['zoo/a', 'farm/a']) bed.turns.occupy(other)
    await bed.pass()
    const { conditions } = (await bed.status()) ?? {}
    expect(conditions?.find(({ type }) => type === 'Ready')?.message).toContain('DAVIT_MAX_BAKES is 2')
  })

  test('ends with the bake', async () => {
    await bed.pass()
    expect(bed.turns.taken).toBe(1)
    await bed.endJob(SUCCESS)
    await bed.pass()
    expect(bed.turns.taken).toBe(0)
  })

  test('ends with the template', async () => {
    await bed.pass()
    const held = bed.book.get('acme', 'shop')
    if (held) bed.book.remove(held)
    await bed.pass()
    expect(bed.turns.taken).toBe(0)
  })

  test('is of no use to a template that cannot be baked', async () => {
    await bed.store.delete(registryCredentials, CREDENTIAL)
    bed.turns.occupy('acme/other')
    await bed.pass()
    expect((await bed.status())?.bake?.failure?.code).toBe('credential_unknown')
    expect(bed.turns.waiting).toBe(0)
  })
})

describe('what is not of Davit', () => {
  test('is left alone, though it carries the label of the template', async () => {
    const labels = { 'davit.dev/box-template': 'shop', app: 'shop' }
    await bed.makeJob({ name: 'migration', labels })
    await bed.store.create(pods, { metadata: { namespace: 'acme', name: 'shop-api-0', labels } })
    await bed.pass()
    expect(bed.store.all(jobs).map(({ metadata }) => metadata.name)).toContain('migration')
    expect((await bed.status())?.bake?.state).toBe('pending')
    expect(bed.store.all(jobs)).toHaveLength(2)
  })
})
