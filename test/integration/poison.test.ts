/**
 * Stored objects that this version cannot use: each is reported in the log, and blocks nothing else, while the controller runs
 * and at its start.
 */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { eventTypes } from '../../src/apis/event-type.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { API_VERSION, type ResourceType } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import type { RawObject } from '../../src/kube/client.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { installLooseCrds } from '../support/loose-crds.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let controlPlane: ControlPlane
let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  controlPlane = await startControlPlane()
  await installLooseCrds(controlPlane)
  receiver = await startReceiver()
  davit = await startDavit('poison', { cluster: controlPlane })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await controlPlane?.stop()
})

const KINDS = new Map<ResourceType, string>([
  [webhookEndpoints, 'WebhookEndpoint'],
  [webhookDeliveries, 'WebhookDelivery'],
  [webhookEvents, 'WebhookEvent'],
  [eventTypes, 'EventType'],
  [deliverySegments, 'DeliverySegment'],
  [outcomeSegments, 'OutcomeSegment'],
])

async function store(
  type: ResourceType,
  name: string,
  { status, ...fields }: Record<string, unknown>,
  namespace = davit.organization,
): Promise<void> {
  const metadata = { name, ...(type.namespaced ? { namespace } : {}) }
  const object = { apiVersion: API_VERSION, kind: KINDS.get(type) ?? '', metadata, ...fields }
  await davit.api.create(type, object as RawObject)
  if (status !== undefined) await davit.api.patch(type, metadata, { status }, { subresource: 'status' })
}

/** One object for each spec. @returns their names */
async function storeAll(
  type: ResourceType,
  specs: readonly unknown[],
  { status, namespace }: { status?: unknown; namespace?: string } = {},
): Promise<string[]> {
  const names: string[] = []
  for (const spec of specs) {
    const name = sortableName(davit.clock.now(), randomBytes(10))
    await store(type, name, { spec, status }, namespace)
    names.push(name)
  }
  return names
}

function logLine(part: string): Promise<string> {
  return until(
    async () => davit.logLines.find((line) => line.includes(part)),
    () => `no line of the log has ${part}`,
  )
}

type Good = { type: string; path: string; spec: { url: string; eventTypes: string[] } }

/** A spec with every field, since nothing here has defaults. */
async function good(name: string): Promise<Good> {
  const type = await ownEventType(davit)
  return { type, path: `/${name}`, spec: { url: `${receiver.url}/${name}`, eventTypes: [type] } }
}

async function endpoint(name: string, over: Record<string, unknown> = {}): Promise<Good> {
  const made = await good(name)
  await davit.endpoint(name, { ...made.spec, ...over })
  return made
}

/** What is published after it arrives, now and after a restart. */
async function goesOn({ type, path }: Good): Promise<void> {
  for (const restart of [false, true]) {
    if (restart) await davit.restart()
    const before = receiver.received(path).length
    await davit.publish(type, { restart })
    const requests = await receiver.waitFor(before + 1, { path })
    expect(requests.at(-1)?.body.toString()).toContain(`"restart":${restart}`)
  }
  expect(davit.controller.problems()).toEqual([])
}

/** Specs that no kind has. */
const SPECS: unknown[] = [undefined, null, 'text', [1, 2], { version: 2, entries: [{}] }]

describe('an endpoint', () => {
  test('with a spec that makes no sense', async () => {
    const beside = await endpoint('beside')
    const url = 'https://example.com'
    const odd = [
      { url: 5, eventTypes: ['*'] },
      { url, eventTypes: '*' },
      { url, eventTypes: ['*'], concurrency: -1 },
    ]
    const names = await storeAll(webhookEndpoints, [...SPECS, ...odd])
    for (const name of names) await logLine(name)
    await goesOn(beside)
  })

  test('with a status that makes no sense', async () => {
    const made = await good('odd-status')
    await davit.controller.stop()
    const status = { state: 7, consecutiveFailures: 'many', conditions: 'none', lastHandled: [1] }
    await store(webhookEndpoints, 'odd-status', { spec: made.spec, status })
    await davit.startController()
    await logLine('odd-status')
    await goesOn(await endpoint('beside-odd-status'))
  })

  test('that became unusable keeps what waits for it, and it goes on when the endpoint is mended', async () => {
    const made = await endpoint('mended')
    receiver.answer(made.path, { status: 500 }, {})
    await davit.publish(made.type, { n: 1 })
    await waiting('mended')
    await davit.patchSpec('mended', { url: 5 })
    await logLine('mended')
    await davit.restart()
    davit.clock.jump(30_000)
    await goesOn(await endpoint('beside-mended'))
    expect(receiver.received(made.path)).toHaveLength(1)
    await davit.patchSpec('mended', { url: made.spec.url })
    await receiver.waitFor(2, { path: made.path })
  })
})

describe('an event', () => {
  test('with a spec that makes no sense is refused, or told of', async () => {
    const beside = await endpoint('beside-events')
    const type = 'environment.started'
    const odd = [
      { type: 5, dataText: '{}' },
      { type, data: {}, dataText: '{}' },
      { type, dataText: 7 },
    ]
    const names = await storeAll(webhookEvents, [...SPECS, ...odd])
    await goesOn(beside)
    for (const name of names) {
      const { status } = await davit.api.get(webhookEvents, { namespace: davit.organization, name })
      if ((status as { state?: string } | undefined)?.state !== 'refused') await logLine(name)
    }
  })
})

describe('an event type', () => {
  test('with a spec that makes no sense is none', async () => {
    const beside = await endpoint('beside-types')
    const names = await storeAll(eventTypes, [...SPECS, { description: 'x', schema: 'none' }])
    for (const name of names) await logLine(name)
    for (const name of names) expect((await davit.publish(name, {})).status?.state).toBe('refused')
    await goesOn(beside)
  })
})

describe('a delivery', () => {
  test('with a spec that makes no sense', async () => {
    const beside = await endpoint('beside-deliveries')
    const names = await storeAll(webhookDeliveries, SPECS, { status: { state: 'retrying' } })
    await goesOn(beside)
    for (const name of names) await logLine(name)
  })

  test('whose attempts make no sense does not hold an ordered endpoint', async () => {
    const made = await endpoint('odd-attempts', { ordered: true })
    receiver.answer(made.path, { status: 500 }, {})
    await davit.publish(made.type, { n: 1 })
    const name = await waiting('odd-attempts')
    const ref = { namespace: davit.organization, name }
    await davit.api.patch(webhookDeliveries, ref, { status: { attempts: 'none' } }, { subresource: 'status' })
    davit.clock.jump(180_000)
    await logLine(name)
    await davit.eventSeen('odd-attempts', 'UnreadableDelivery')
    await goesOn(made)
  })

  test('that becomes unusable during an attempt has its outcome once it is mended', async () => {
    const made = await endpoint('mid-attempt')
    receiver.answer(made.path, { status: 500 }, { delayMs: 300 })
    await davit.publish(made.type, { n: 1 })
    const ref = { namespace: davit.organization, name: await waiting('mid-attempt') }
    const writeAttempts = (attempts: unknown) =>
      davit.api.patch(webhookDeliveries, ref, { status: { attempts } }, { subresource: 'status' })
    const { status } = await davit.api.get(webhookDeliveries, ref)
    davit.clock.jump(30_000)
    await receiver.waitFor(2, { path: made.path })
    await writeAttempts('none')
    await logLine('failed to store the outcome of an attempt')
    await writeAttempts((status as { attempts: unknown[] }).attempts)
    await until(
      async () => {
        const { status } = await davit.api.get(webhookDeliveries, ref)
        return (status as { state?: string }).state === 'succeeded' ? true : undefined
      },
      () => 'its outcome is not stored',
    )
  })
})

describe('the log', () => {
  test('with segments that make no sense', async () => {
    const beside = await endpoint('beside-segments')
    const where = { namespace: davit.namespace }
    const names = await storeAll(deliverySegments, SPECS, where)
    names.push(...(await storeAll(outcomeSegments, SPECS, where)))
    await goesOn(beside)
    for (const name of names) await logLine(name)
  })

  test('of which a segment cannot be read is searched for what is to be delivered again', async () => {
    const made = await endpoint('searched')
    const event = await davit.publish(made.type, { n: 1 })
    await receiver.waitFor(1, { path: made.path })
    await store(deliverySegments, '0-newest-of-all', { spec: { version: 2 } }, davit.namespace)
    const asked = `${event.status?.eventId}@${davit.time()}`
    await davit.annotate('searched', { 'davit.dev/redeliver-requested': asked })
    await receiver.waitFor(2, { path: made.path })
  })
})

/** @returns the name of the one delivery of an endpoint, once it waits for its second attempt */
async function waiting(endpoint: string): Promise<string> {
  return await until(
    async () => {
      const { items } = await davit.api.list(webhookDeliveries, { namespace: davit.organization })
      const of = items.find(({ spec }) => (spec as { endpoint?: string } | undefined)?.endpoint === endpoint)
      return (of?.status as { state?: string } | undefined)?.state === 'retrying'
        ? of?.metadata.name
        : undefined
    },
    () => `no delivery of ${endpoint} waits`,
  )
}
