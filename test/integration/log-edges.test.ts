/** Edges of the delivery log that no ordinary day brings: backups, and deliveries over which processes end. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { messageId, sortableName } from '../../src/apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { shardOf } from '../../src/ha/assignment.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const MINUTE = 60_000

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('log-edges')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function freshName(): string {
  return sortableName(davit.clock.now(), randomBytes(10))
}

async function endpoint(name: string): Promise<WebhookEndpoint> {
  const type = await ownEventType(davit)
  return (await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type] })).endpoint
}

/** A segment with one event to the endpoint. @returns its version and the delivery's id */
async function append({ metadata }: WebhookEndpoint, writtenAt: number) {
  const event = acceptEvent(
    {
      name: freshName(),
      namespace: davit.organization,
      type: 'environment.started',
      dataText: '{}',
      happenedAt: writtenAt,
    },
    [{ name: metadata.name, uid: metadata.uid }],
  )
  const made = await davit.api.create(deliverySegments, {
    apiVersion: API_VERSION,
    kind: 'DeliverySegment',
    metadata: { name: freshName(), namespace: davit.namespace },
    spec: segmentSpec([event], 'another', writtenAt),
  })
  return { version: made.metadata.resourceVersion, id: messageId(event.event.id) }
}

async function record(records: string): Promise<void> {
  await davit.api.create(outcomeSegments, {
    apiVersion: API_VERSION,
    kind: 'OutcomeSegment',
    metadata: { name: freshName(), namespace: davit.namespace },
    spec: { writtenAt: davit.clock.now(), writer: 'another', lowWater: '1', records },
  })
}

test('deliveries and segments say to backups that they are to be left out', async () => {
  const type = await ownEventType(davit)
  await davit.endpoint('labels', { url: `${receiver.url}/labels`, eventTypes: [type] })
  await davit.publish(type, {})
  await driveToEnd(davit, 'labels')
  const query = { namespace: davit.namespace }
  const lists = await Promise.all([
    davit.api.list(deliverySegments, query),
    davit.api.list(outcomeSegments, query),
    davit.api.list(webhookDeliveries, { namespace: davit.organization }),
  ])
  for (const { items } of lists) {
    expect(items.length).toBeGreaterThan(0)
    for (const { metadata } of items) expect(metadata.labels).toMatchObject({ [NO_BACKUP_LABEL]: 'true' })
  }
})

test('a segment that is minutes older than its object comes from a backup, and is not sent', async () => {
  const restored = await endpoint('restored')
  await append(restored, davit.clock.now() - 6 * MINUTE)
  await passBy(davit, receiver)
  await davit.restart()
  await passBy(davit, receiver)
  expect(receiver.received('/restored')).toEqual([])
  await append(restored, davit.clock.now() - 4 * MINUTE)
  await receiver.waitFor(1, { path: '/restored' })
})

test('a delivery that ended its controller alone has failed, is attempted minutes later, and its endpoint says so', async () => {
  const suspect = await endpoint('suspect')
  const other = await endpoint('innocent')
  await davit.controller.stop()
  const { version, id } = await append(suspect, davit.clock.now())
  await append(other, davit.clock.now())
  await record(`claim ${shardOf(suspect.metadata.uid)} ends 4\n${version}/0 begin {"n":0,"alone":1}`)
  await davit.startController()
  await receiver.waitFor(1, { path: '/innocent' })
  const { message } = await davit.eventSeen('suspect', 'DeliverySetAside')
  expect(message).toContain(id)
  const [shown] = await davit.deliveriesWhen(
    'suspect',
    ([delivery]) => delivery?.status?.state === 'retrying',
  )
  expect(shown?.status).toMatchObject({
    attemptCount: 1,
    attempts: [{ error: 'the Davit controller stopped during this attempt' }],
  })
  expect(receiver.received('/suspect')).toEqual([])
  davit.clock.jump(5 * MINUTE)
  const [ended] = await driveToEnd(davit, 'suspect')
  expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 2 })
  expect(receiver.received('/suspect')).toHaveLength(1)
})
