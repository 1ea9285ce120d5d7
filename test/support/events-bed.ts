import { eventType, eventTypes } from '../../src/apis/event-type.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import {
  eventOutline,
  type WebhookEventStatus,
  webhookEvent,
  webhookEvents,
} from '../../src/apis/webhook-event.ts'
import { ApiError, type ApiErrorKind } from '../../src/kube/client.ts'
import { Organizations } from '../../src/kube/organizations.ts'
import { createSchemaValidator } from '../../src/lib/json-schema.ts'
import { type Delivery, EndpointQueue } from '../../src/webhooks/delivery/endpoint-queue.ts'
import { PendingCounters } from '../../src/webhooks/delivery/pending-counts.ts'
import { EventTypeStore } from '../../src/webhooks/endpoints/event-types.ts'
import { EventsReconciler } from '../../src/webhooks/events/controller.ts'
import { PublishQuota } from '../../src/webhooks/events/quota.ts'
import { UnconfirmedAppends, WebhookEventStore } from '../../src/webhooks/events/store.ts'
import { DedupeIndex } from '../../src/webhooks/log/idempotency-keys.ts'
import { ByteWindow } from '../../src/webhooks/log/written-bytes.ts'
import { FakeClock, fixedRandom } from './fake-clock.ts'
import { MemoryStore } from './memory-store.ts'

const TYPE = 'environment.started'

export class EventsBed {
  readonly clock = new FakeClock()
  readonly queue = new EndpointQueue({ namespace: 'acme', name: 'billing', uid: 'uid-1' })
  readonly store = new MemoryStore(() => this.clock.now())
  readonly book = new WebhookEventStore()
  readonly counters = new PendingCounters()
  readonly written = new ByteWindow(this.clock, { maxPerKey: 1000 })
  /** Events on objects: the object's name and the reason. */
  readonly recorded: [string, string][] = []
  /** Ids of appended events. */
  readonly appended: string[] = []
  /** Their bodies. */
  readonly bodies: string[] = []
  /** The delivered part of the log: everything that was appended. */
  readonly keys = new DedupeIndex()
  readonly catalogue: EventTypeStore
  /** Status writes, accepted or rejected. */
  writes = 0
  failAppends = 0
  beforeAppend = async (): Promise<void> => undefined
  /** Version up to which the watch has delivered the log. */
  readUpTo = 0
  /** Duration of a read by the API server. */
  slowMs = 0
  /** Writes to reject, by the name of the event. */
  readonly refusals = new Map<string, ApiErrorKind>()
  reconciler: EventsReconciler
  /** Events of this process that the log may not have delivered yet. */
  unconfirmed!: UnconfirmedAppends

  constructor(catalogue: EventTypeStore) {
    this.catalogue = catalogue
    this.reconciler = this.#reconciler()
    this.counters.onEventDone = (name, version) => void this.reconciler.delivered(name, version)
  }

  /** Starts another process, which knows only the API server and the log. */
  restart(): void {
    this.reconciler = this.#reconciler()
  }

  #reconciler(): EventsReconciler {
    const { clock, store, book, counters, queue, written, keys, catalogue } = this
    const unconfirmed = new UnconfirmedAppends(clock, () => this.readUpTo)
    this.unconfirmed = unconfirmed
    counters.onEventSeen = (name) => unconfirmed.confirm(name)
    const limits = {
      pending: { organization: 3, all: 100 },
      openBytes: { organization: 1000, all: 100_000 },
      writtenBytes: { organization: 1000, all: 1500 },
    }
    const quota = new PublishQuota({
      counters,
      unconfirmed,
      written,
      queues: () => [queue],
      limits,
    })
    const organizations = new Organizations()
    organizations.apply({ name: 'acme', uid: 'uid-of-acme', ownerEmails: [] })
    return new EventsReconciler({
      resources: {
        list: (type, query, from) => store.list(type, query, from),
        get: (type, ref) => {
          clock.advance(this.slowMs)
          return store.get(type, ref)
        },
      },
      writer: {
        create: (type, object) => store.create(type, object),
        delete: (type, ref, precondition) => store.delete(type, ref, precondition),
        patch: async (type, ref, patch, how) => {
          this.writes += 1
          const kind = this.refusals.get(ref.name)
          if (kind) throw new ApiError(kind, 'no')
          return await store.patch(type, ref, patch, how)
        },
      },
      organizations,
      catalogue,
      validator: createSchemaValidator(),
      keys,
      log: {
        append: async (events) => {
          await this.beforeAppend()
          if (this.failAppends > 0) {
            this.failAppends -= 1
            throw new ApiError('Unavailable', 'no answer', { status: 0 })
          }
          const version = 7 + this.appended.length
          this.appended.push(...events.map(({ event }) => event.id))
          this.bodies.push(...events.map(({ event }) => event.payload))
          for (const [index, { event, targets }] of events.entries())
            keys.isDuplicate({ ...event, receivers: targets.length }, version, index, clock.monotonic())
          return { segment: 's', version, firstDelivery: 0 }
        },
      },
      clock,
      random: fixedRandom(1),
      store: book,
      counters,
      unconfirmed,
      quota,
      time: clock,
      onNotDeleted: () => undefined,
      recorder: { record: (about, event) => void this.recorded.push([about.metadata.name, event.reason]) },
    })
  }

  async publish(name: string, more: object = {}, namespace = 'acme'): Promise<void> {
    const metadata = { namespace, name }
    const spec = { type: TYPE, dataText: '{}', ...more }
    this.book.apply(eventOutline.parse(await this.store.create(webhookEvents, { metadata, spec })))
  }

  /** A delivery of the event that the log has delivered. */
  logged(name: string, bytes?: number): Delivery {
    this.readUpTo = Math.max(this.readUpTo, 7)
    return this.known(name, bytes)
  }

  /** A delivery that is known from an object or from the log. */
  known(name: string, bytes = 0): Delivery {
    const home = { kind: 'object' } as const
    const facts = {
      name,
      queue: this.queue,
      version: 7,
      index: 0,
      acceptedAt: 0,
      bodyBytes: bytes,
      sharesBody: false,
      attempts: 0,
      dueAt: 0,
    }
    const delivery: Delivery = { ...facts, ofWebhookEvent: true, stage: 'queued', left: false, storage: home }
    this.counters.add(delivery)
    this.queue.add(delivery)
    return delivery
  }

  /** Simulates a write of another replica or of a user that the watch has not delivered. */
  async elsewhere(name: string, patch: object, subresource?: 'status'): Promise<void> {
    await this.store.patch(webhookEvents, { namespace: 'acme', name }, patch, subresource && { subresource })
  }

  /** Deletes the only type, and delivers that to the watch. */
  async withdrawType(): Promise<void> {
    this.catalogue.remove(eventType.parse(await this.store.get(eventTypes, { name: TYPE })))
    await this.store.delete(eventTypes, { name: TYPE })
  }

  async stateOf(name: string, namespace = 'acme'): Promise<unknown> {
    return (await this.statusOf(name, namespace))?.state
  }

  async statusOf(name: string, namespace = 'acme'): Promise<WebhookEventStatus | undefined> {
    return webhookEvent.parse(await this.store.get(webhookEvents, { namespace, name })).status
  }
}

/** One organization with one endpoint for all events, and one type. */
export async function startEventsBed(): Promise<EventsBed> {
  const catalogue = new EventTypeStore()
  const bed = new EventsBed(catalogue)
  const type = { metadata: { name: TYPE }, spec: { description: 'An environment started.' } }
  catalogue.apply(eventType.parse(await bed.store.create(eventTypes, type)))
  await bed.store.create(webhookEndpoints, {
    metadata: { namespace: 'acme', name: 'billing' },
    spec: { url: 'https://receiver.example', eventTypes: ['*'] },
  })
  return bed
}
