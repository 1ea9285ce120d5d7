/** `spec.signingSecret`: the keys in a Secret of the organization (settled, "Events and deliveries"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Secret, secret as secretSchema, secrets } from '../../src/apis/core-kinds.ts'
import { type WebhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { isApiError, type RawObject } from '../../src/kube/client.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const ROLL = 'davit.dev/rotate-requested-at'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('signing-secret')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function secretNamed(name: string): Promise<Secret | undefined> {
  try {
    return secretSchema.parse(await davit.api.get(secrets, { namespace: davit.organization, name }))
  } catch (error) {
    if (isApiError(error, 'NotFound')) return undefined
    throw error
  }
}

/** The two values of the Secret as text. */
async function keysIn(name: string): Promise<{ newest: string; all: string[] } | undefined> {
  const data = (await secretNamed(name))?.data
  if (!data) return undefined
  const read = (field: string) => Buffer.from(data[field] ?? '', 'base64').toString()
  return { newest: read('signingSecret'), all: read('signingSecrets').split('\n') }
}

async function keysWhen(name: string, count: number) {
  return await until(
    async () => {
      const keys = await keysIn(name)
      return keys?.all.length === count ? keys : undefined
    },
    () => `the Secret ${name} does not have ${count} keys`,
  )
}

async function makeSecret(name: string, more: Partial<RawObject> = {}): Promise<void> {
  const metadata = { name, namespace: davit.organization }
  const stringData = { mine: 'do not touch' }
  await davit.api.create(secrets, { apiVersion: 'v1', kind: 'Secret', metadata, stringData, ...more })
}

async function roll(name: string, option = ''): Promise<void> {
  const value = davit.time() + option
  await davit.annotate(name, { [ROLL]: value })
  await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.rotate === value)
  davit.clock.jump(1)
}

function url(name: string): string {
  return `${receiver.url}/${name}`
}

function isRefused({ status }: WebhookEndpoint): boolean {
  return (
    status?.conditions?.some(
      ({ type, reason }) => type === 'Ready' && reason === 'CannotWriteSigningSecret',
    ) === true
  )
}

function isReady({ status }: WebhookEndpoint): boolean {
  return status?.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True') === true
}

test('set at creation it gets the first key, with which a receiver verifies what comes', async () => {
  const type = await ownEventType(davit)
  const { endpoint, secret } = await davit.endpoint('first', {
    url: url('first'),
    eventTypes: [type],
    signingSecret: { name: 'first-key' },
  })
  const keys = await keysWhen('first-key', 1)
  expect(keys).toEqual({ newest: secret, all: [secret] })
  const made = await secretNamed('first-key')
  expect(made?.type).toBe('davit.dev/signing-key')
  expect(made?.metadata).toMatchObject({
    labels: {
      'davit.dev/signing-secret-of': endpoint.metadata.uid,
      'velero.io/exclude-from-backup': 'true',
    },
  })
  await davit.publish(type, {})
  const [request] = await receiver.waitFor(1, { path: '/first' })
  expect(request && verifyWebhook(request, keys.newest)).toMatchObject({ type })
})

test('it follows rolls: the newest key, and all in force one a line, newest first, until they end', async () => {
  const { secret: first } = await davit.endpoint('follows', {
    url: url('follows'),
    signingSecret: { name: 'follows' },
  })
  await roll('follows')
  const [fresh = ''] = davit.secrets('follows')
  expect(await keysWhen('follows', 2)).toEqual({ newest: fresh, all: [fresh, first] })
  davit.clock.jump(86_400_000)
  expect(await keysWhen('follows', 1)).toEqual({ newest: fresh, all: [fresh] })
  await roll('follows', ';expire-old')
  const [last = ''] = davit.secrets('follows')
  await until(
    async () => ((await keysIn('follows'))?.newest === last ? true : undefined),
    () => 'the Secret does not have the last key',
  )
  expect(await keysIn('follows')).toEqual({ newest: last, all: [last] })
})

test('set later it reveals nothing, and after the next roll only the key of that roll', async () => {
  await davit.endpoint('later', { url: url('later') })
  await davit.patchSpec('later', { signingSecret: { name: 'later' } })
  await davit.endpointWhen(
    'later',
    ({ status, metadata }) => status?.observedGeneration === metadata.generation,
  )
  await passBy(davit, receiver)
  expect(await secretNamed('later')).toBeUndefined()
  await roll('later')
  const [fresh = ''] = davit.secrets('later')
  expect(davit.secrets('later')).toHaveLength(2)
  expect(await keysWhen('later', 1)).toEqual({ newest: fresh, all: [fresh] })
})

test('an empty Secret of the type that says so is filled', async () => {
  await makeSecret('prepared', { type: 'davit.dev/signing-key' })
  const { secret } = await davit.endpoint('prepared', {
    url: url('prepared'),
    signingSecret: { name: 'prepared' },
  })
  await until(
    async () => ((await keysIn('prepared'))?.newest === secret ? true : undefined),
    () => 'it was not filled',
  )
  expect((await secretNamed('prepared'))?.data).toHaveProperty('mine')
})

describe("a Secret that is somebody else's is left alone, and a condition says so", () => {
  test('one of another type; the endpoint is delivered to all the same, and mends when the Secret is gone', async () => {
    const type = await ownEventType(davit)
    await makeSecret('foreign')
    const { secret } = await davit.endpoint('refused', {
      url: url('refused'),
      eventTypes: [type],
      signingSecret: { name: 'foreign' },
    })
    const refused = await davit.endpointWhen('refused', isRefused)
    const ready = refused.status?.conditions?.find((condition) => condition.type === 'Ready')
    expect(ready?.message).toContain('foreign')
    expect((await secretNamed('foreign'))?.data).toEqual({
      mine: Buffer.from('do not touch').toString('base64'),
    })
    await davit.publish(type, {})
    await receiver.waitFor(1, { path: '/refused' })
    davit.clock.jump(60_000)
    await passBy(davit, receiver)
    expect(await keysIn('foreign')).toEqual({ newest: '', all: [''] })
    await davit.api.delete(secrets, { namespace: davit.organization, name: 'foreign' })
    davit.clock.jump(60_000)
    await davit.endpointWhen('refused', isReady)
    expect(await keysWhen('foreign', 1)).toEqual({ newest: secret, all: [secret] })
  })

  test('one of another type, named later, before any key would go there', async () => {
    await makeSecret('foreign-later')
    await davit.endpoint('refused-later', { url: url('refused-later') })
    await davit.patchSpec('refused-later', { signingSecret: { name: 'foreign-later' } })
    await davit.endpointWhen('refused-later', isRefused)
    await davit.patchSpec('refused-later', { signingSecret: null })
    await davit.endpointWhen('refused-later', isReady)
  })

  test('the one of another endpoint', async () => {
    const { secret } = await davit.endpoint('owner', { url: url('owner'), signingSecret: { name: 'shared' } })
    await keysWhen('shared', 1)
    await davit.endpoint('intruder', { url: url('intruder'), signingSecret: { name: 'shared' } })
    await davit.endpointWhen('intruder', isRefused)
    expect(await keysIn('shared')).toEqual({ newest: secret, all: [secret] })
  })

  test('one that cannot be changed', async () => {
    await makeSecret('frozen', { type: 'davit.dev/signing-key', immutable: true })
    await davit.endpoint('frozen', { url: url('frozen'), signingSecret: { name: 'frozen' } })
    await davit.endpointWhen('frozen', isRefused)
  })
})

test('an endpoint that is recreated under its name takes over the Secret of the one before', async () => {
  const before = await davit.endpoint('heir', { url: url('heir'), signingSecret: { name: 'heir' } })
  await keysWhen('heir', 1)
  await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: 'heir' })
  const { secret } = await davit.endpoint('heir', { url: url('heir'), signingSecret: { name: 'heir' } })
  expect(secret).not.toBe(before.secret)
  await until(
    async () => ((await keysIn('heir'))?.newest === secret ? true : undefined),
    () => 'the Secret has the old key still',
  )
  expect(await keysIn('heir')).toEqual({ newest: secret, all: [secret] })
})
