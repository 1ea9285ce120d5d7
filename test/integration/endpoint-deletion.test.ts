/** Deleting an endpoint, and making one of the same name again (settled, "Events and deliveries"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secret, secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { isApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const REDELIVER = 'davit.dev/redeliver-requested'

let davit: TestDavit
let receiver: Receiver
/** Set: the making of signing keys waits for it. */
let keysWait: Promise<void> | undefined

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('endpoint-deletion', { wrapApi: withWaits })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function withWaits(api: KubernetesClient): KubernetesClient {
  return {
    ...api,
    create: async (type, object, options) => {
      if (type.plural === secrets.plural) await keysWait
      return await api.create(type, object, options)
    },
  }
}

type Made = { name: string; path: string; type: string; secret: string; uid: string }

async function endpoint(name: string, spec: Record<string, unknown> = {}): Promise<Made> {
  const type = await ownEventType(davit)
  return await endpointFor(name, type, spec)
}

async function endpointFor(name: string, type: string, spec: Record<string, unknown> = {}): Promise<Made> {
  const path = `/${name}`
  const made = await davit.endpoint(name, { url: receiver.url + path, eventTypes: [type], ...spec })
  return { name, path, type, secret: made.secret, uid: made.endpoint.metadata.uid }
}

async function remove(name: string): Promise<void> {
  await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name })
}

/** The controller has seen that the endpoint is gone. */
async function noticed({ name, uid }: Made): Promise<void> {
  await until(
    async () => {
      const view = davit.controller.webhooks.directory.get(davit.organization, name)
      return view?.endpoint.metadata.uid === uid ? undefined : true
    },
    () => `the controller still has ${name}`,
  )
}

/** Deliveries of exactly this endpoint, not of another one of its name. */
async function deliveriesOf({ name, uid }: Made): Promise<WebhookDelivery[]> {
  return (await davit.deliveries(name)).filter(({ spec }) => spec.endpointUid === uid)
}

/** Resolves when nothing of the endpoint is stored any more. */
async function allGone(made: Made): Promise<void> {
  let left: unknown[] = []
  await until(
    async () => {
      left = [...(await deliveriesOf(made)), ...(await keysOf(made))]
      // Finished deliveries are looked at every few seconds.
      if (left.length > 0) davit.clock.jump(1000)
      return left.length === 0 ? true : undefined
    },
    () => `left of ${made.name}: ${JSON.stringify(left)}`,
  )
}

async function keysOf({ name, uid }: Made): Promise<unknown[]> {
  try {
    const ref = { namespace: davit.namespace, name: `${davit.organization}.${name}` }
    const { data } = secret.parse(await davit.api.get(secrets, ref))
    const text = Buffer.from(data?.keys ?? '', 'base64').toString()
    return text.includes(uid) ? [`keys of ${name}`] : []
  } catch (error) {
    if (isApiError(error, 'NotFound')) return []
    throw error
  }
}

/** Nothing more comes to the path, however long one waits. */
async function staysAt({ path }: Made, count: number): Promise<void> {
  davit.clock.jump(24 * HOUR_MS)
  await passBy(davit, receiver)
  expect(receiver.received(path)).toHaveLength(count)
}

describe('nothing arrives any more, and its deliveries and keys are gone', () => {
  test('those that wait for a retry, those that have ended, and those behind the head of an ordered lane', async () => {
    const made = await endpoint('busy', { ordered: true })
    receiver.answer(made.path, { status: 200 }, { status: 500 })
    await davit.publish(made.type, { n: 'ended' })
    await driveToEnd(davit, 'busy')
    const events = [await davit.publish(made.type, { n: 'retries' }), await davit.publish(made.type, {})]
    await davit.deliveriesWhen('busy', (all) => all.some(({ status }) => status?.state === 'retrying'))
    await remove('busy')
    await noticed(made)
    await allGone(made)
    await staysAt(made, 2)
    // What was canceled keeps no event waiting.
    for (const { metadata } of events)
      await davit.eventWhen(metadata.name, ({ status }) => status?.state === 'dispatched')
  })

  test.each([
    { name: 'wire-fails', status: 500 },
    { name: 'wire-succeeds', status: 200 },
  ])('also what is on the wire, where the answer is $status', async ({ name, status }) => {
    const made = await endpoint(name)
    let answer = () => {}
    const after = new Promise<void>((resolve) => {
      answer = resolve
    })
    receiver.answer(made.path, { status, after })
    const event = await davit.publish(made.type, {})
    await receiver.waitFor(1, { path: made.path })
    await remove(name)
    await noticed(made)
    answer()
    await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
    await allGone(made)
    await staysAt(made, 1)
    expect(await deliveriesOf(made)).toEqual([])
  })

  test('also those of a disabled endpoint, which held them', async () => {
    const made = await endpoint('held')
    receiver.answer(made.path, { status: 500 })
    await davit.publish(made.type, {})
    await driveToAttempt(davit, 'held', 1)
    await davit.patchSpec('held', { state: 'disabled' })
    await davit.endpointWhen('held', ({ status }) => status?.state === 'disabled')
    await remove('held')
    await noticed(made)
    await allGone(made)
    await staysAt(made, 1)
  })

  test('also when it is deleted while no controller runs', async () => {
    const made = await endpoint('unwatched')
    receiver.answer(made.path, { status: 200 }, { status: 500 })
    await davit.publish(made.type, { n: 'ended' })
    await driveToEnd(davit, 'unwatched')
    await davit.publish(made.type, { n: 'retries' })
    await driveToAttempt(davit, 'unwatched', 1, 2)
    await davit.controller.stop()
    await remove('unwatched')
    await davit.startController()
    await allGone(made)
    await staysAt(made, 2)
  })

  test('also while somebody else keeps the object from going: nothing is sent from the request on', async () => {
    const made = await endpoint('finalized')
    receiver.answer(made.path, { status: 500 })
    await davit.publish(made.type, {})
    await driveToAttempt(davit, 'finalized', 1)
    const finalizers = (list: string[]) =>
      davit.api.patch(
        webhookEndpoints,
        { namespace: davit.organization, name: 'finalized' },
        { metadata: { finalizers: list } },
      )
    await finalizers(['example.com/hold'])
    await remove('finalized')
    await davit.endpointWhen('finalized', ({ metadata }) => metadata.deletionTimestamp !== undefined)
    await passBy(davit, receiver)
    const event = await davit.publish(made.type, {})
    expect(event.status?.deliveries).toBe(0)
    await staysAt(made, 1)
    await finalizers([])
    await noticed(made)
    await allGone(made)
  })
})

test('keys that are made while their endpoint goes do not stay', async () => {
  let go = () => {}
  keysWait = new Promise<void>((resolve) => {
    go = resolve
  })
  const name = 'short-lived'
  const { metadata } = await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: { name, namespace: davit.organization },
    spec: { url: `${receiver.url}/${name}`, eventTypes: ['*'] },
  })
  const made = { name, path: `/${name}`, type: '*', secret: '', uid: metadata.uid ?? '' }
  const known = () => davit.controller.webhooks.directory.get(davit.organization, name)
  await until(
    async () => (known() ? true : undefined),
    () => 'the controller does not know the endpoint',
  )
  await remove(name)
  await noticed(made)
  keysWait = undefined
  go()
  // A pass over another endpoint comes after this one's.
  await passBy(davit, receiver)
  await allGone(made)
})

describe.each([
  { name: 'again-watched', watched: true },
  { name: 'again-unwatched', watched: false },
])('one made again under the same name (controller running: $watched)', ({ name, watched }) => {
  test('inherits nothing: no delivery, key, count, request, nor what could be delivered again', async () => {
    const old = await endpoint(name, { ordered: true })
    receiver.answer(old.path, ...Array.from({ length: 9 }, () => ({ status: 500 })), { status: 200 })
    const event = await davit.publish(old.type, { n: 'old' })
    await driveToEnd(davit, name)
    await davit.publish(old.type, { n: 'waits' })
    await driveToAttempt(davit, name, 1, 2)
    await davit.endpointWhen(name, ({ status }) => status?.consecutiveFailures === 1)
    if (!watched) await davit.controller.stop()
    await remove(name)
    const make = endpointFor(name, old.type, { ordered: true })
    if (!watched) await davit.startController()
    const made = await make
    expect(made.uid).not.toBe(old.uid)
    expect(made.secret).not.toBe(old.secret)
    await allGone(old)
    const { status } = await davit.endpointWhen(name, () => true)
    expect(status).toMatchObject({ state: 'enabled', consecutiveFailures: 0 })
    for (const field of ['failingSince', 'lastCounted', 'lastHandled', 'override'])
      expect(status).not.toHaveProperty(field)
    expect(status?.signingSecrets).toHaveLength(1)

    // An old head would hold it in an ordered queue.
    await davit.publish(old.type, { n: 'new' })
    const requests = await receiver.waitFor(10, { path: old.path })
    expect(JSON.parse(String(requests[9]?.body))).toMatchObject({ data: { n: 'new' } })
    expect(requests[9] && signersOf(requests[9], [made.secret, old.secret])).toEqual([0])
    await davit.annotate(name, { [REDELIVER]: `${event.status?.eventId}@${davit.time()}` })
    await davit.eventSeen(name, 'DeliveryNotFound')
    await staysAt(old, 10)
    const shown = await davit.deliveries(name)
    expect(shown.every(({ spec, status }) => spec.endpointUid === made.uid && isFinal(status?.state))).toBe(
      true,
    )
  })
})
