import { expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { type ApiCall, calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { deliveryOutline } from '../../api/delivery-outline.ts'
import { deliverySegments } from '../../api/delivery-segment.ts'
import type { ResourceType } from '../../api/meta.ts'
import { outcomeSegments } from '../../api/outcome-segment.ts'
import {
  type DeliveryState,
  type WebhookDeliverySpec,
  webhookDeliveries,
} from '../../api/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../api/webhook-endpoint.ts'
import { messageId, sortableName } from '../../domain/message-id.ts'
import { segmentSpec } from '../../domain/segment.ts'
import { ApiError } from '../../ports/kubernetes.ts'
import { readSegment } from '../delivery-log/read-back.ts'
import { EndpointDirectory } from '../endpoint/endpoint-directory.ts'
import { Retention } from './retention.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR
const SYSTEM = 'davit-system'
const ORGANIZATION = 'acme'

const limits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 10,
  maxFinished: 1000,
  maxLogBytes: 1_000_000,
}

type Made = { state?: DeliveryState; age?: number; version?: number; segment?: string; endpoint?: string }

class Bed {
  readonly clock = new FakeClock()
  readonly store = new MemoryStore(() => this.clock.now())
  readonly api = new FaultyApi(this.store)
  readonly directory = new EndpointDirectory()
  readonly complaints: string[] = []
  readonly retention: Retention
  lowWater = 1_000_000
  healthy = true
  heldLooks = 0
  #made = 0

  constructor(over: Partial<typeof limits> = {}) {
    const complain = (message: string) => void this.complaints.push(message)
    this.retention = new Retention({
      resources: this.api,
      namespace: SYSTEM,
      clock: this.clock,
      log: { info: complain, warn: complain, error: complain },
      limits: { ...limits, ...over },
      directory: this.directory,
      lowWater: () => this.lowWater,
      healthy: () => this.healthy,
      cancelHeld: () => {
        this.heldLooks += 1
      },
    })
  }

  async endpoint(name: string): Promise<WebhookEndpoint> {
    const created = await this.store.create(webhookEndpoints, {
      metadata: { namespace: ORGANIZATION, name },
      spec: { url: 'https://receiver.example', eventTypes: ['*'] },
    })
    const endpoint = webhookEndpoint.parse(created)
    this.directory.apply(endpoint)
    return endpoint
  }

  /** An object of a delivery that retention is told of, as at a start. @returns its name */
  async delivery(given: Made = {}): Promise<string> {
    const { state = 'succeeded', age = 0, version = 1, segment, endpoint = 'billing' } = given
    this.#made += 1
    const id = sortableName(this.clock.now(), new Uint8Array(10).fill(this.#made))
    const metadata = { namespace: ORGANIZATION, name: `${id}-abcdefgh` }
    const spec: WebhookDeliverySpec = {
      endpoint,
      endpointUid: this.directory.get(ORGANIZATION, endpoint)?.endpoint.metadata.uid ?? `uid-${endpoint}`,
      deliveryId: messageId(id),
      eventType: 'test.event',
      position: `${version}/0`,
      ...(segment === undefined ? { payload: '{}' } : { payloadRef: { segment, event: 0 } }),
      writtenAt: new Date(this.clock.now()).toISOString(),
    }
    await this.store.create(webhookDeliveries, { metadata, spec })
    const completedAt = new Date(this.clock.now() - age).toISOString()
    const status = state === 'pending' ? {} : { state, attemptCount: 1, completedAt }
    const raw = await this.store.patch(webhookDeliveries, metadata, { status }, { subresource: 'status' })
    this.retention.objectFound(deliveryOutline.parse(raw))
    return metadata.name
  }

  async segment(name: string, payloadBytes = 100): Promise<void> {
    const payload = JSON.stringify('x'.repeat(payloadBytes))
    const event = { id: name.padStart(26, '0'), namespace: ORGANIZATION, type: 'test.event', payload }
    const targets = [{ name: 'billing', uid: 'uid-billing' }]
    const spec = segmentSpec([{ event, targets }], 'test', this.clock.now())
    const created = await this.store.create(deliverySegments, { metadata: { namespace: SYSTEM, name }, spec })
    this.retention.segmentSeen(readSegment(created))
  }

  async outcomes(name: string, lowWater: number): Promise<void> {
    const records = '101/0 moved'
    const writtenAt = this.clock.now()
    const { metadata } = await this.store.create(outcomeSegments, {
      metadata: { namespace: SYSTEM, name },
      spec: { writtenAt, writer: 'test', lowWater: String(lowWater), records },
    })
    this.retention.outcomesWritten({
      name,
      version: Number(metadata.resourceVersion),
      writtenAt,
      lowWater,
      records,
    })
  }

  async readLog(): Promise<void> {
    let read = false
    void this.retention.readLog().then(() => {
      read = true
    })
    while (!read) await this.clock.elapse(50)
  }

  /** Passes until nothing is left to do. */
  async settle(): Promise<void> {
    await this.readLog()
    for (let idle = 0; idle < 3; ) {
      const before = this.api.calls.filter(({ verb }) => verb === 'delete').length
      await this.retention.pass()
      await this.clock.elapse(5000)
      const after = this.api.calls.filter(({ verb }) => verb === 'delete').length
      idle = after === before ? idle + 1 : 0
    }
  }

  names(type: ResourceType): string[] {
    return this.store.all(type).map(({ metadata }) => metadata.name)
  }
}

function deleting(type: ResourceType, name?: string): (call: ApiCall) => boolean {
  return (call) => calling('delete', type)(call) && (name === undefined || call.name === name)
}

test('successes go after a day, failures after a week, and what has not finished stays', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  await bed.delivery({ age: DAY + 1 })
  await bed.delivery({ age: 7 * DAY + 1, state: 'exhausted' })
  await bed.delivery({ age: 7 * DAY + 1, state: 'canceled' })
  const kept = [
    await bed.delivery({ age: DAY - MINUTE }),
    await bed.delivery({ age: 7 * DAY - MINUTE, state: 'exhausted' }),
    await bed.delivery({ age: 30 * DAY, state: 'retrying' }),
    await bed.delivery({ state: 'pending' }),
  ]
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
  expect(bed.retention.stats()).toMatchObject({ finished: 2, deleted: 3, failed: 0 })
})

test('of an endpoint with too many, the oldest successes go', async () => {
  const bed = new Bed({ maxFinishedPerEndpoint: 3 })
  await bed.endpoint('billing')
  const kept = [
    await bed.delivery({ age: 9 * MINUTE, state: 'exhausted' }),
    await bed.delivery({ age: 2 * MINUTE }),
    await bed.delivery({ age: 1 * MINUTE }),
  ]
  for (const age of [5, 4, 3]) await bed.delivery({ age: age * MINUTE })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
})

test('a delivery whose entry in the log is open stays: it would be delivered again without its object', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  bed.lowWater = 6
  const kept = await bed.delivery({ age: 2 * DAY, version: 7 })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([kept])
  bed.lowWater = 7
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('one that turns out not to have finished stays', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  const ref = { namespace: ORGANIZATION, name }
  await bed.store.patch(webhookDeliveries, ref, { status: { state: 'retrying' } }, { subresource: 'status' })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  expect(bed.complaints).toEqual(['A delivery that was taken for finished is not; it stays'])
})

test('one that changes under the deletion stays for a minute, and is looked at again', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  const held = Promise.withResolvers<void>()
  bed.api.fail(deleting(webhookDeliveries), { hold: held.promise })
  const passing = bed.retention.pass()
  await settle()
  const ref = { namespace: ORGANIZATION, name }
  await bed.store.patch(webhookDeliveries, ref, { metadata: { labels: { mine: 'yes' } } })
  held.resolve()
  await passing
  expect([bed.names(webhookDeliveries), bed.retention.stats().failed]).toEqual([[name], 1])
  await bed.clock.elapse(59_000)
  await bed.retention.pass()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  await bed.clock.elapse(6000)
  await bed.retention.pass()
  expect(bed.names(webhookDeliveries)).toEqual([])
})

test('one that somebody else has deleted is no failure', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  const name = await bed.delivery({ age: 2 * DAY })
  await bed.store.delete(webhookDeliveries, { namespace: ORGANIZATION, name })
  await bed.settle()
  expect([bed.complaints, bed.retention.stats().failed, bed.retention.stats().finished]).toEqual([[], 0, 0])
})

test('what may not be deleted holds nothing up', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  const stuck: string[] = []
  for (let n = 0; n < 20; n += 1) stuck.push(await bed.delivery({ age: 3 * DAY }))
  bed.api.fail(
    (call) => deleting(webhookDeliveries)(call) && stuck.includes(call.name ?? ''),
    { before: new ApiError('Forbidden', 'a policy says no') },
    Number.MAX_SAFE_INTEGER,
  )
  await bed.delivery({ age: 2 * DAY })
  for (let n = 0; n < 4; n += 1) await bed.clock.elapse(await bed.retention.pass())
  expect(bed.names(webhookDeliveries)).toEqual(stuck.sort())
  await bed.clock.elapse(5000)
  await bed.retention.pass()
  expect(bed.complaints).toEqual(['Retention could not delete; trying again'])
})

test('a store that does not answer is left alone for as long as it asks', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  await bed.delivery({ age: 2 * DAY })
  const error = new ApiError('TooManyRequests', 'later', { retryAfterMs: 7000 })
  bed.api.fail(deleting(webhookDeliveries), { before: error })
  expect(await bed.retention.pass()).toBe(7000)
  expect(await bed.retention.pass()).toBe(1000)
})

test('while outcomes cannot be stored, for want of space perhaps, it deletes slowly', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  for (let n = 0; n < 9; n += 1) await bed.delivery({ age: 2 * DAY })
  bed.healthy = false
  expect(await bed.retention.pass()).toBe(800)
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
})

test('deliveries of an endpoint that is gone go with it, whether it went before the start or after', async () => {
  const bed = new Bed()
  const billing = await bed.endpoint('billing')
  await bed.endpoint('audit')
  await bed.delivery()
  await bed.delivery({ state: 'exhausted' })
  await bed.delivery({ endpoint: 'gone-long-ago' })
  const unfinished = await bed.delivery({ endpoint: 'gone-long-ago', state: 'pending' })
  const kept = await bed.delivery({ endpoint: 'audit' })
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'billing' })
  bed.directory.remove(billing)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([unfinished, kept].sort())
})

test('the deliveries of an endpoint that the watch has not shown stay if it exists, or cannot be looked up', async () => {
  const bed = new Bed()
  const endpoint = await bed.endpoint('billing')
  const name = await bed.delivery()
  bed.directory.remove(endpoint)
  const looking = calling('get', webhookEndpoints)
  bed.api.fail(looking, { before: new ApiError('Unavailable', 'no answer') })
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([name])
  expect(bed.api.calls.filter(looking)).toHaveLength(2)
})

test('an endpoint made anew under the same name keeps nothing of the one before', async () => {
  const bed = new Bed()
  const before = await bed.endpoint('billing')
  await bed.delivery()
  await bed.store.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'billing' })
  bed.directory.remove(before)
  await bed.endpoint('billing')
  const kept = await bed.delivery()
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual([kept])
})

test('segments go after a day with the outcomes that speak of them, and the newest outcomes stay', async () => {
  const bed = new Bed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.segment('s2')
  await bed.outcomes('o2', 101)
  await bed.outcomes('o3', 103)
  await bed.clock.elapse(DAY - MINUTE)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s1', 's2'])
  await bed.segment('s3')
  await bed.clock.elapse(MINUTE)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s3'])
  expect(bed.names(outcomeSegments)).toEqual(['o3'])
  expect(bed.retention.stats()).toMatchObject({ logSegments: 1, outcomeSegments: 1 })
})

test('outcomes stay as long as a segment that they speak of cannot be deleted', async () => {
  const bed = new Bed()
  await bed.segment('s1')
  await bed.outcomes('o1', 100)
  await bed.outcomes('o2', 101)
  await bed.clock.elapse(2 * DAY)
  const failing = bed.api.fail(
    deleting(deliverySegments),
    { before: new ApiError('Forbidden', 'a policy says no') },
    Number.MAX_SAFE_INTEGER,
  )
  await bed.readLog()
  for (let n = 0; n < 5; n += 1) {
    await bed.retention.pass()
    await bed.clock.elapse(5000)
  }
  expect(bed.names(outcomeSegments)).toEqual(['o1', 'o2'])
  failing()
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([[], ['o2']])
})

test('nothing of the log goes before all of it was read', async () => {
  const bed = new Bed()
  await bed.segment('s1')
  await bed.clock.elapse(2 * DAY)
  for (let n = 0; n < 5; n += 1) await bed.clock.elapse(await bed.retention.pass())
  expect(bed.names(deliverySegments)).toEqual(['s1'])
})

test('a log that is too large loses its oldest segments, as many as it takes', async () => {
  const bed = new Bed({ maxLogBytes: 100_000 })
  for (let n = 1; n <= 9; n += 1) await bed.segment(`s${n}`, 20_000)
  await bed.clock.elapse(HOUR)
  await bed.settle()
  expect(bed.names(deliverySegments)).toEqual(['s6', 's7', 's8', 's9'])
  expect(bed.retention.stats().logBytes).toBeLessThanOrEqual(100_000)
  expect(bed.retention.stats().oldestSegmentAgeMs).toBeGreaterThanOrEqual(HOUR)
})

test('a payload that an object refers to keeps its segment, for as long as the object is there', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  await bed.segment('s1', 20_000)
  await bed.outcomes('o1', 100)
  await bed.outcomes('o2', 101)
  await bed.delivery({ segment: 's1', state: 'exhausted', version: 101 })
  await bed.clock.elapse(6 * DAY)
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([['s1'], ['o1', 'o2']])
  await bed.clock.elapse(DAY)
  await bed.settle()
  expect([bed.names(deliverySegments), bed.names(outcomeSegments)]).toEqual([[], ['o2']])
})

test('where large payloads fill the log, finished deliveries go first, and unfinished ones keep theirs', async () => {
  const bed = new Bed({ maxLogBytes: 60_000 })
  await bed.endpoint('billing')
  for (let n = 1; n <= 4; n += 1) await bed.segment(`s${n}`, 20_000)
  const kept = [
    await bed.delivery({ segment: 's1', state: 'retrying' }),
    await bed.delivery({ segment: 's2', state: 'exhausted' }),
  ]
  await bed.delivery({ segment: 's3' })
  await bed.delivery({ segment: 's4' })
  await bed.clock.elapse(HOUR)
  await bed.settle()
  expect(bed.names(webhookDeliveries)).toEqual(kept.sort())
  expect(bed.names(deliverySegments)).toEqual(['s1', 's2'])
})

test('a clock that is set a week ahead by mistake deletes nothing', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  const name = await bed.delivery()
  await bed.segment('s1')
  await bed.clock.elapse(HOUR)
  bed.clock.setWallBy(8 * DAY)
  await bed.settle()
  expect([bed.names(webhookDeliveries), bed.names(deliverySegments)]).toEqual([[name], ['s1']])
})

test('started, it deletes at most a hundred a second, looks at what is held every five seconds, and stops', async () => {
  const bed = new Bed()
  await bed.endpoint('billing')
  for (let n = 0; n < 150; n += 1) await bed.delivery({ age: 2 * DAY })
  bed.retention.start()
  await bed.clock.elapse(1000)
  const left = bed.names(webhookDeliveries).length
  expect(left).toBeGreaterThanOrEqual(40)
  expect(left).toBeLessThan(60)
  await bed.clock.elapse(9000)
  expect([bed.names(webhookDeliveries), bed.heldLooks]).toEqual([[], 2])
  const stopping = bed.retention.stop()
  await settle()
  await stopping
  await bed.delivery({ age: 2 * DAY })
  await bed.clock.elapse(10_000)
  expect(bed.names(webhookDeliveries)).toHaveLength(1)
  expect(bed.clock.pending).toBe(0)
})
