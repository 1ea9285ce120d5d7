/** An API in memory with the three kinds of the delivery log, under one sequence of versions. */
import type { AcceptedEvent } from '../../src/apis/delivery-segment.ts'
import { deliveryObjectName } from '../../src/apis/ids.ts'
import { type ResourceType, VIEW_LABEL } from '../../src/apis/meta.ts'
import { encodeLogRecord, type LogRecord } from '../../src/apis/outcome-segment.ts'
import type { WebhookDeliveryStatus } from '../../src/apis/webhook-delivery.ts'
import {
  ApiError,
  type ListQuery,
  type ObjectRef,
  type Page,
  type RawObject,
  type ResourceReader,
  type WatchEvent,
  type WatchSource,
} from '../../src/kube/client.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { FakeApi } from './fake-api.ts'

export type LogKind = 'deliverysegments' | 'outcomesegments' | 'webhookdeliveries'

/** All of its objects are in the namespace `org`, like those of `FakeApi`. */
export class LogApi implements ResourceReader, WatchSource {
  readonly kinds: Record<LogKind, FakeApi> = {
    deliverysegments: new FakeApi(),
    outcomesegments: new FakeApi(),
    webhookdeliveries: new FakeApi(),
  }
  gets = 0
  /** Thrown by every `get`. */
  down: ApiError | undefined

  /** @returns the version of the segment */
  accept(name: string, events: readonly AcceptedEvent[], writtenAt = 0): number {
    return this.#put('deliverysegments', name, { fields: { spec: segmentSpec(events, 'test', writtenAt) } })
  }

  tell(
    name: string,
    records: readonly LogRecord[],
    { silently = false, writer = 'test' }: { silently?: boolean; writer?: string } = {},
  ): number {
    const spec = {
      writtenAt: Date.UTC(2026, 0, 31, 12),
      writer,
      lowWater: '0',
      records: records.map(encodeLogRecord).join('\n'),
    }
    return this.#put('outcomesegments', name, { fields: { spec }, silently })
  }

  /** Creates or changes the object of a delivery. @param id the 26 characters */
  show(
    id: string,
    uid: string,
    status?: WebhookDeliveryStatus,
    { silently = false, isView = false } = {},
  ): number {
    const spec = {
      endpoint: 'billing',
      endpointUid: uid,
      deliveryId: `msg_${id}`,
      eventType: 'test.happened',
      position: '1/0',
      payload: '{}',
      writtenAt: '2026-01-31T12:00:00.000Z',
    }
    const fields = { spec, ...(status ? { status } : {}) }
    const labels = isView ? { [VIEW_LABEL]: 'true' } : {}
    return this.#put('webhookdeliveries', deliveryObjectName(id, uid), { fields, labels, silently })
  }

  remove(kind: LogKind, name: string, silently = false): void {
    this.#step(kind)
    this.kinds[kind].remove(name, { silently })
  }

  /** Sends a bookmark to every watch. */
  bookmark(): void {
    for (const kind of Object.keys(this.kinds) as LogKind[]) {
      this.#step(kind)
      this.kinds[kind].bookmark()
    }
  }

  async get(type: ResourceType, { name }: ObjectRef): Promise<RawObject> {
    this.gets += 1
    if (this.down) throw this.down
    const found = this.#of(type).objects.get(name)
    if (!found) throw new ApiError('NotFound', `${name} not found`, { status: 404 })
    return structuredClone(found)
  }

  list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    return this.#of(type).list(type, query, from)
  }

  watch(
    type: ResourceType,
    query: ListQuery,
    version: string,
    signal: AbortSignal,
  ): AsyncIterable<WatchEvent[]> {
    return this.#of(type).watch(type, query, version, signal)
  }

  #of(type: ResourceType): FakeApi {
    return this.kinds[type.plural as LogKind]
  }

  #put(kind: LogKind, name: string, how: Parameters<FakeApi['put']>[1]): number {
    this.#step(kind)
    this.kinds[kind].put(name, how)
    return this.kinds[kind].version
  }

  #step(kind: LogKind): void {
    this.kinds[kind].version = Math.max(...Object.values(this.kinds).map(({ version }) => version))
  }
}
