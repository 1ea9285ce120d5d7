import { beforeEach, describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../test/support/faulty-api.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { secretsSettingsResource } from '../apis/secrets-settings.ts'
import { AccountIdentity } from '../credentials/accounts/identity.ts'
import { ApiError } from '../kube/client.ts'
import { SecretsSettingsService, type SettingsDraft } from './secrets-settings.ts'

const ACME = 'acme'
const REF = { namespace: ACME, name: 'default' }
const ROLE = 'arn:aws:iam::222222222222:role/davit'
const EXTERNAL_ID = new AccountIdentity(new Uint8Array(32), '/davit').externalIdOf('uid-of-acme')

let clock: FakeClock
let store: MemoryStore
let api: FaultyApi
let settings: SecretsSettingsService
beforeEach(() => {
  clock = new FakeClock()
  store = new MemoryStore(() => clock.now())
  api = new FaultyApi(store)
  settings = new SecretsSettingsService({
    resources: api,
    organizations: {
      get: (name) => (name === ACME ? { name, uid: 'uid-of-acme', ownerEmails: [] } : undefined),
    },
    identity: new AccountIdentity(new Uint8Array(32), '/davit'),
    clock,
  })
})

const LATER = '2026-01-31T12:00:03.000Z'
const condition = (type: string, status: 'True' | 'False', reason: string) => ({
  type,
  status,
  reason,
  message: `${reason}.`,
  observedGeneration: 1,
  lastTransitionTime: LATER,
})
const CONNECTED = [condition('Ready', 'True', 'Connected')]

/** As the controller says it. */
async function say(conditions: readonly object[], more: Record<string, unknown> = {}): Promise<void> {
  const status = { observedGeneration: 1, account: '222222222222', checkedAt: LATER, conditions, ...more }
  await store.patch(secretsSettingsResource, REF, { status }, { subresource: 'status' })
}

async function put(draft: SettingsDraft, ifMatch?: string) {
  const answer = settings.put(ACME, draft, { ifMatch })
  answer.catch(() => undefined)
  await settle()
  await clock.elapse(10_000)
  return await answer
}

test('before there are any, what Davit has decided is there to be seen', async () => {
  expect(await settings.get(ACME)).toEqual({
    settings: { externalId: EXTERNAL_ID, parameterPrefix: '/davit/acme', conditions: [] },
  })
  expect(await codeOf(settings.get('umbrella'))).toBe('not_found')
  expect(await codeOf(settings.put('umbrella', { region: 'eu-west-1' }, {}))).toBe('not_found')
})

describe('putting', () => {
  test('answers as soon as the controller has tried them', async () => {
    const answer = settings.put(ACME, { region: 'eu-west-1', roleArn: ROLE }, {})
    await settle()
    expect((await store.get(secretsSettingsResource, REF)).spec).toEqual({
      region: 'eu-west-1',
      roleArn: ROLE,
    })
    await clock.elapse(3000)
    await say([condition('Ready', 'False', 'Connecting'), condition('Reconciling', 'True', 'Connecting')])
    await clock.elapse(2000)
    await say(CONNECTED, { trustPolicy: '{}', writerPolicy: '{"w":1}' })
    await clock.elapse(1000)
    const { settings: shown, etag } = await answer
    expect(shown).toEqual({
      region: 'eu-west-1',
      roleArn: ROLE,
      externalId: EXTERNAL_ID,
      account: '222222222222',
      parameterPrefix: '/davit/acme',
      trustPolicy: '{}',
      writerPolicy: '{"w":1}',
      checkedAt: LATER,
      conditions: CONNECTED.map(({ observedGeneration: _, ...rest }) => rest),
    })
    expect(await settings.get(ACME)).toEqual({ settings: shown, etag })
    expect(clock.pending).toBe(0)
  })

  test('answers after ten seconds with what is known, which is nothing of what was found out before', async () => {
    await put({ region: 'eu-west-1' })
    await say(CONNECTED)
    // As the API server counts.
    await store.patch(secretsSettingsResource, REF, { metadata: { generation: 2 } })
    const { settings: shown } = await put({ region: 'us-east-1' })
    expect(shown).toMatchObject({
      region: 'us-east-1',
      conditions: [{ type: 'Ready', status: 'Unknown', reason: 'Connecting' }],
    })
    expect(shown.account).toBeUndefined()
  })

  test('takes away what is left out, and writes nothing where nothing is new', async () => {
    const all = {
      region: 'eu-west-1',
      roleArn: ROLE,
      kmsKeyId: 'alias/mine',
      repositoryPrefix: 'boxes/',
    }
    expect((await put(all)).settings).toMatchObject(all)
    await say(CONNECTED)
    const before = store.version
    await put(all)
    expect(store.version).toBe(before)
    await put({ region: 'eu-west-1', roleArn: ROLE })
    expect((await store.get(secretsSettingsResource, REF)).spec).toEqual({
      region: 'eu-west-1',
      roleArn: ROLE,
    })
  })

  test('is refused where somebody else manages them, unless it changes nothing', async () => {
    await put({ region: 'eu-west-1' })
    const annotations = { 'argocd.argoproj.io/tracking-id': 'ours' }
    await store.patch(secretsSettingsResource, REF, { metadata: { annotations } })
    expect(await codeOf(put({ region: 'us-east-1' }))).toBe('managed_elsewhere')
    expect(await codeOf(put({ region: 'eu-west-1' }))).toBe('answered')
  })

  test('is refused where they are no longer those that were seen', async () => {
    await expect(put({ region: 'eu-west-1' }, '*')).rejects.toMatchObject({
      code: 'precondition_failed',
      detail: expect.stringContaining('has no secrets settings'),
    })
    const { etag } = await put({ region: 'eu-west-1' })
    expect(await codeOf(put({ region: 'us-east-1' }, '"another"'))).toBe('precondition_failed')
    await expect(put({ region: 'us-east-1' }, 'W/"another"')).rejects.toMatchObject({
      code: 'precondition_failed',
      detail: expect.stringContaining('a weak ETag'),
    })
    expect(await codeOf(put({ region: 'us-east-1' }, etag))).toBe('answered')
  })

  test.each([
    { what: 'another verdict', conditions: [condition('Ready', 'False', 'RoleRefused')], more: {} },
    { what: 'the account', conditions: CONNECTED, more: { account: '333333333333' } },
    { what: 'a policy to paste', conditions: CONNECTED, more: { writerPolicy: '{"w":2}' } },
  ])('is held back by If-Match if $what is shown since', async ({ conditions, more }) => {
    await put({ region: 'eu-west-1' })
    await say(CONNECTED)
    const { etag } = await settings.get(ACME)
    await say(CONNECTED, { checkedAt: '2026-01-31T13:00:00.000Z' })
    expect((await settings.get(ACME)).etag).toBe(etag)
    await say(conditions, more)
    expect(await codeOf(put({ region: 'us-east-1' }, etag))).toBe('precondition_failed')
  })

  test('decides again where somebody else was quicker', async () => {
    await put({ region: 'eu-west-1' })
    api.fail(calling('patch', secretsSettingsResource), { before: new ApiError('Conflict', 'modified') })
    expect((await put({ region: 'us-east-1' })).settings.region).toBe('us-east-1')
  })

  test('says what the cluster refuses', async () => {
    api.fail(calling('create', secretsSettingsResource), {
      before: new ApiError('Invalid', 'a policy says no'),
    })
    expect(await codeOf(put({ region: 'eu-west-1' }))).toBe('invalid')
  })
})

describe('settings that are being deleted', () => {
  beforeEach(async () => {
    await put({ region: 'eu-west-1' })
    await store.patch(secretsSettingsResource, REF, { metadata: { finalizers: ['davit.dev/account'] } })
    await store.delete(secretsSettingsResource, REF)
  })

  test('look as if there were none', async () => {
    expect(await settings.get(ACME)).toEqual({
      settings: { externalId: EXTERNAL_ID, parameterPrefix: '/davit/acme', conditions: [] },
    })
  })

  test('are waited for by a put, which is refused when they stay', async () => {
    expect(await codeOf(put({ region: 'us-east-1' }))).toBe('overloaded')
    const answer = settings.put(ACME, { region: 'us-east-1' }, {})
    await clock.elapse(2000)
    await store.patch(secretsSettingsResource, REF, { metadata: { finalizers: [] } })
    await store.delete(secretsSettingsResource, REF)
    await clock.elapse(10_000)
    expect((await answer).settings.region).toBe('us-east-1')
  })
})

test('settings that cannot be used are said to be so', async () => {
  await store.create(secretsSettingsResource, { metadata: REF, spec: { region: 7 } })
  expect(await codeOf(settings.get(ACME))).toBe('unreadable')
})
