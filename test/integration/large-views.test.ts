/** Two controllers: one deletes segments of the log, and the other has written objects that refer to bodies in them. */

import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import type { RunningController } from '../../src/cmd/start-controller.ts'
import { SHARD_COUNT, shardOf } from '../../src/ha/assignment.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const ENDPOINTS = ['a', 'b', 'c', 'd', 'e', 'f', 'g', 'h']
const EVENTS = 2
const LIMIT_MS = 90_000

let davit: TestDavit
let other: RunningController | undefined
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('large-views', {
    env: { DAVIT_LEASE_DURATION: '3s', DAVIT_MAX_LOG_BYTES: '1Mi' },
  })
})

afterAll(async () => {
  await other?.stop()
  await davit?.stop()
  await receiver?.close()
})

/** Data that stays as long when it is compressed. */
function dataOf(bytes: number): string {
  return JSON.stringify(randomBytes(Math.ceil((bytes * 3) / 4)).toString('base64'))
}

async function segments(): Promise<Set<string>> {
  const { items } = await davit.api.list(deliverySegments, { namespace: davit.namespace, limit: 500 })
  return new Set(items.map(({ metadata }) => metadata.name))
}

async function views(): Promise<WebhookDelivery[]> {
  return (await Promise.all(ENDPOINTS.map((name) => davit.deliveries(name)))).flat()
}

test('no object outlives the segment with its body, whichever controller wrote it', {
  timeout: 3 * LIMIT_MS,
}, async () => {
  const joined = await davit.joinAs('other')
  other = joined
  await joined.ready
  await until(
    async () =>
      davit.controller.replica.ownedShardCount + joined.replica.ownedShardCount === SHARD_COUNT || undefined,
    () => 'the shards are not shared',
    LIMIT_MS,
  )
  const type = await ownEventType(davit)
  const shards = new Set<number>()
  for (const name of ENDPOINTS) {
    const made = await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type] })
    shards.add(shardOf(made.endpoint.metadata.uid))
  }
  for (let n = 0; n < EVENTS; n += 1) await davit.publish(type, dataOf(20_000))
  const isOf = ({ webhooks }: RunningController) =>
    [...shards].some((shard) => webhooks.engine.queues.isOurs(shard))
  expect([davit.controller, joined].map(isOf)).toEqual([true, true])
  const made = await until(
    async () => {
      const found = (await views()).filter(({ status }) => status?.state === 'succeeded')
      return found.length === EVENTS * ENDPOINTS.length ? found : undefined
    },
    () => 'not all deliveries have their object',
  )
  const referred = new Set(made.map(({ spec }) => spec.payloadRef?.segment ?? 'none'))
  const before = await segments()
  expect([...referred].filter((name) => !before.has(name))).toEqual([])

  davit.clock.jump(5 * 60_000)
  for (let n = 0; n < 8; n += 1) await davit.publish(type, dataOf(200_000))
  davit.clock.jump(5 * 60_000)
  await until(
    async () => {
      davit.clock.jump(5000)
      const left = await segments()
      return [...referred].every((name) => !left.has(name)) || undefined
    },
    () => 'the segments are still there',
    LIMIT_MS,
  )
  const kept = await segments()
  const orphans = (await views()).filter(({ spec }) => !kept.has(spec.payloadRef?.segment ?? ''))
  expect(orphans.map(({ metadata }) => metadata.name)).toEqual([])
})
