import { randomBytes } from 'node:crypto'
import { deliverySegments, type SegmentEvent } from '../../src/apis/delivery-segment.ts'
import { messageId, sortableName } from '../../src/apis/ids.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { type ClaimRecord, encodeLogRecord, outcomeSegments } from '../../src/apis/outcome-segment.ts'
import {
  type DeliveryState,
  deliveryOutline,
  type WebhookDeliverySpec,
  webhookDeliveries,
} from '../../src/apis/webhook-delivery.ts'
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import { type Delivery, EndpointQueue } from '../../src/webhooks/delivery/endpoint-queue.ts'
import { OpenSegments } from '../../src/webhooks/delivery/low-water-mark.ts'
import { DeliveryObjects } from '../../src/webhooks/delivery/objects.ts'
import { Payloads } from '../../src/webhooks/delivery/payloads.ts'
import { EndpointDirectory } from '../../src/webhooks/endpoints/directory.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { readSegment } from '../../src/webhooks/log/reader.ts'
import { Retention } from '../../src/webhooks/log/retention-loop.ts'
import { SegmentBodies } from '../../src/webhooks/log/segment-bodies.ts'
import type { LogSegment } from '../../src/webhooks/log/store.ts'
import { createEventLog } from '../../src/webhooks/log/writers.ts'
import { FakeClock } from './fake-clock.ts'
import { type ApiCall, calling, FaultyApi } from './faulty-api.ts'
import { logOn } from './log-on.ts'
import { MemoryStore } from './memory-store.ts'

const DAY = 24 * 60 * 60_000

/** The operator's namespace and the organization of a bed. */
export const SYSTEM = 'davit-system'
export const ORGANIZATION = 'acme'

const limits = {
  succeededMs: DAY,
  failedMs: 7 * DAY,
  maxFinishedPerEndpoint: 10,
  maxFinishedBytes: 4_000_000,
  maxLogBytes: 1_000_000,
}

type Made = {
  state?: DeliveryState
  age?: number
  version?: number
  segment?: string
  endpoint?: string
  labels?: Record<string, string>
}

/** Retention on a store in memory with scripted errors, and a clock that tests step. */
export class RetentionBed {
  readonly clock = new FakeClock()
  readonly store = new MemoryStore(() => this.clock.now() - this.#olderMs)
  readonly api = new FaultyApi(this.store)
  readonly directory = new EndpointDirectory()
  readonly complaints: string[] = []
  readonly retention: Retention
  lowWater = 1_000_000
  /** Positions ahead of the mark that are closed. */
  readonly closed = new Set<string>()
  deliveredUpTo = Number.POSITIVE_INFINITY
  healthy = true
  heldLooks = 0
  /** Shards of this process, which determine its share; absent: all. */
  owned: ReadonlySet<number> | undefined
  #made = 0
  /** Age of the objects that are created now. */
  #olderMs = 0

  constructor(over: Partial<typeof limits> = {}) {
    const complain = (_event: string, message: string) => void this.complaints.push(message)
    this.retention = new Retention({
      resources: this.api,
      store: logOn(this.api, this),
      clock: this.clock,
      log: { info: complain, warn: complain, error: complain },
      limits: { ...limits, ...over },
      directory: this.directory,
      lowWater: () => this.lowWater,
      isClosed: ({ version, index }) => version <= this.lowWater || this.closed.has(`${version}/${index}`),
      healthy: () => this.healthy,
      cancelHeld: () => {
        this.heldLooks += 1
      },
      share: () => (this.owned ? this.owned.size / SHARD_COUNT : 1),
      isOurs: (shard) => this.owned?.has(shard) ?? true,
      eventLog: createEventLog({
        store: logOn(this.api, this),
        writer: 'test',
        clock: this.clock,
      }),
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

  /** An object of a delivery that retention learns of, as at a start. @returns its name */
  async delivery(given: Made = {}): Promise<string> {
    const { state = 'succeeded', age = 0, version = 1, segment, endpoint = 'billing', labels = {} } = given
    this.#made += 1
    const id = sortableName(this.clock.now(), new Uint8Array(10).fill(this.#made))
    const metadata = { namespace: ORGANIZATION, name: `${id}-abcdefgh`, labels }
    const spec: WebhookDeliverySpec = {
      endpoint,
      endpointUid: this.directory.get(ORGANIZATION, endpoint)?.endpoint.metadata.uid ?? `uid-${endpoint}`,
      deliveryId: messageId(id),
      eventType: 'test.event',
      position: `${version}/0`,
      ...(segment === undefined ? { payload: '{}' } : { payloadRef: { segment, event: 0 } }),
      writtenAt: new Date(this.clock.now()).toISOString(),
    }
    this.#olderMs = Math.max(0, age)
    await this.store.create(webhookDeliveries, { metadata, spec })
    this.#olderMs = 0
    const completedAt = new Date(this.clock.now() - age).toISOString()
    const status = state === 'pending' ? {} : { state, attemptCount: 1, completedAt }
    const raw = await this.store.patch(webhookDeliveries, metadata, { status }, { subresource: 'status' })
    this.retention.objectFound(deliveryOutline.parse(raw))
    return metadata.name
  }

  /** An entry of the log that is promoted to an object, like the delivery engine does it. */
  async entry(endpoint: WebhookEndpoint, payloadBytes: number): Promise<Delivery> {
    const segment = await this.segment(`s${this.store.version}`, payloadBytes)
    const opened = new OpenSegments().add(segment)
    const [entry] = segment.deliveries
    if (!opened || !entry) throw new Error('no entry')
    const { name, uid } = endpoint.metadata
    const delivery: Delivery = {
      name: sortableName(this.clock.now(), new Uint8Array(10).fill(segment.version)),
      queue: new EndpointQueue({ namespace: ORGANIZATION, name, uid }),
      version: segment.version,
      index: 0,
      acceptedAt: this.clock.now(),
      ofWebhookEvent: false,
      bodyBytes: 0,
      sharesBody: false,
      attempts: 0,
      dueAt: 0,
      stage: 'queued',
      left: false,
      storage: { kind: 'object' },
    }
    const bodies = new SegmentBodies({
      store: logOn(this.api, this),
      maxBytes: 1_000_000,
      onRead: () => undefined,
    })
    const objects = new DeliveryObjects(this.api, new Payloads(1_000_000, bodies), this.clock, {
      onReferred: (object, from) => this.retention.payloadReferred(object, from),
    })
    const completedAt = new Date(this.clock.now()).toISOString()
    const status = { state: 'exhausted' as const, attemptCount: 8, completedAt }
    await objects.store(delivery, { kind: 'log', segment: opened, entry }, status)
    return delivery
  }

  async segment(name: string, payloadBytes = 100, given: Partial<SegmentEvent> = {}): Promise<LogSegment> {
    // As it is stored: it cannot be compressed.
    const payload = JSON.stringify(randomBytes(Math.ceil((payloadBytes * 3) / 4)).toString('base64'))
    const id = name.padStart(26, '0')
    const event = { id, namespace: ORGANIZATION, type: 'test.event', payload, ...given }
    const targets = [{ name: 'billing', uid: 'uid-billing' }]
    const spec = segmentSpec([{ event, targets }], 'test', this.clock.now())
    const created = await this.store.create(deliverySegments, { metadata: { namespace: SYSTEM, name }, spec })
    const segment = readSegment(created)
    this.retention.segmentSeen(segment)
    return segment
  }

  async outcomes(name: string, lowWater: number, shardRecords: readonly ClaimRecord[] = []): Promise<void> {
    const records = ['101/0 moved', ...shardRecords.map(encodeLogRecord)].join('\n')
    const writtenAt = this.clock.now()
    const { metadata } = await this.store.create(outcomeSegments, {
      metadata: { namespace: SYSTEM, name },
      spec: { writtenAt, writer: 'test', lowWater: String(lowWater), records },
    })
    this.retention.outcomesSeen({
      name,
      version: Number(metadata.resourceVersion),
      writer: 'test',
      createdAt: writtenAt,
      lowWater,
      size: records.length,
      records: shardRecords,
    })
  }

  async readLog(): Promise<void> {
    let read = false
    void this.retention
      .followLog(() => this.deliveredUpTo)
      .then(() => {
        read = true
      })
    while (!read) await this.clock.elapse(50)
  }

  /** Runs passes until nothing is left to do. */
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

/** Matches deletes of a kind. */
export function deleting(type: ResourceType, name?: string): (call: ApiCall) => boolean {
  return (call) => calling('delete', type)(call) && (name === undefined || call.name === name)
}
