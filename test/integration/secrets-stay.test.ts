/** Signing keys and payloads are where they belong, and nowhere else. */

import { afterAll, beforeAll, expect, test } from 'vitest'
import { secret, secrets } from '../../src/apis/core-kinds.ts'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

/** Of payloads. */
const CANARY = 'canary-7d1f0a'

let davit: TestDavit
let receiver: Receiver
/** Every signing secret that was active. */
const keys: string[] = []

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('secrets-stay')
  const type = await ownEventType(davit)
  receiver.answer('/failing', { status: 500, body: `I do not like ${CANARY}` })
  for (const name of ['failing', 'fine']) {
    const { secret } = await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type] })
    keys.push(secret)
  }
  await davit.publish(type, { secret: CANARY })
  await driveToEnd(davit, 'failing')
  await davit.annotate('fine', { 'davit.dev/rotate-requested-at': davit.time() })
  await davit.endpointWhen('fine', ({ status }) => status?.signingSecrets?.length === 2)
  keys.push(...davit.secrets('fine'))
  await davit.publish(type, { secret: CANARY })
  await driveToEnd(davit, 'failing', 2)
  await davit.restart()
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** A key as it is written, without its prefix, and in base64 once more, as a Secret holds it. */
function formsOf(key: string): string[] {
  const bare = key.replace('whsec_', '')
  return [bare, Buffer.from(key).toString('base64'), Buffer.from(bare, 'base64').toString('hex')]
}

async function textOf(type: ResourceType, namespace: string): Promise<string> {
  return JSON.stringify((await davit.api.list(type, { namespace, limit: 1000 })).items)
}

test('a signing key is in the Secret of its endpoint and in no other object, log line, Event or metric', async () => {
  expect(new Set(keys).size).toBe(3)
  const places = await Promise.all([
    ...[webhookEndpoints, webhookEvents, webhookDeliveries, secrets].map((type) =>
      textOf(type, davit.organization),
    ),
    ...[deliverySegments, outcomeSegments].map((type) => textOf(type, davit.namespace)),
    davit.metrics.render(),
  ])
  places.push(davit.logLines.join('\n'), JSON.stringify(davit.events))
  for (const form of keys.flatMap(formsOf))
    for (const place of places) expect(place.includes(form)).toBe(false)
  const { items } = await davit.api.list(secrets, { namespace: davit.namespace })
  const stored = items.flatMap((raw) => Object.values(secret.parse(raw).data ?? {}))
  const inClear = stored.map((data) => Buffer.from(data, 'base64').toString('utf8')).join('\n')
  for (const key of keys) expect(inClear).toContain(key)
})

test('what is in a payload, and what a receiver answers, is in no log line, Event or metric', async () => {
  expect(receiver.received('/fine').some(({ body }) => body.toString().includes(CANARY))).toBe(true)
  const places = [davit.logLines.join('\n'), JSON.stringify(davit.events), await davit.metrics.render()]
  expect(davit.logLines.length).toBeGreaterThan(0)
  for (const place of places) expect(place).not.toContain(CANARY)
})
