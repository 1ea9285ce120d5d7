/** One store of several replicas, which delivers written objects to the watches of each. */

import { leases } from '../../src/apis/core-kinds.ts'
import { type AcceptedEvent, deliverySegments } from '../../src/apis/delivery-segment.ts'
import { derivedName } from '../../src/apis/ids.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import type { RawObject, ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import { segmentSpec } from '../../src/webhooks/log/codec.ts'
import { SYSTEM } from './engine-parts.ts'
import type { FakeClock } from './fake-clock.ts'
import { MemoryStore } from './memory-store.ts'

/** How long a closed entry stays in the log. */
const KEPT_MS = 2 * 60_000

export type Watcher = { changed(type: ResourceType, raw: RawObject): void }

export class SharedStore {
  readonly store: MemoryStore
  /** The API for writes of replicas and others. */
  readonly api: ResourceReader & ResourceWriter
  readonly #clock: FakeClock
  readonly #watchers: () => readonly Watcher[]

  /** @param watchers the living ones */
  constructor(clock: FakeClock, watchers: () => readonly Watcher[]) {
    this.#clock = clock
    this.#watchers = watchers
    this.store = new MemoryStore(() => clock.now())
    this.api = this.#notifyingApi()
  }

  /**
   * The objects of a kind for a reader that starts now, in the order of the log: old outcomes behind the low-water mark have been
   * deleted.
   */
  kept(type: ResourceType, lowWater: number): RawObject[] {
    const all = this.store
      .all(type)
      .sort(({ metadata: a }, { metadata: b }) => Number(a.resourceVersion) - Number(b.resourceVersion))
    if (type !== outcomeSegments) return all
    const isOld = ({ metadata }: RawObject) =>
      this.#clock.now() - Date.parse(String(metadata.creationTimestamp)) > KEPT_MS
    const mayGo = (raw: RawObject) => isOld(raw) && Number(raw.metadata.resourceVersion) <= lowWater
    return all.filter((raw, n) => n === all.length - 1 || !mayGo(raw))
  }

  /** Appends a segment, which reaches each replica after its own delay. */
  async append(events: readonly AcceptedEvent[]): Promise<void> {
    const now = Math.floor(this.#clock.now())
    await this.api.create(deliverySegments, {
      metadata: { namespace: SYSTEM, name: derivedName(now, `segment ${this.store.version}`) },
      spec: segmentSpec(events, 'test', now),
    })
  }

  #notifyingApi(): ResourceReader & ResourceWriter {
    const { store } = this
    const watched: readonly ResourceType[] = [deliverySegments, outcomeSegments, webhookEndpoints, leases]
    const tell = (type: ResourceType, raw: RawObject): RawObject => {
      if (watched.includes(type))
        for (const watcher of this.#watchers()) watcher.changed(type, structuredClone(raw))
      return raw
    }
    return {
      get: (type, ref) => store.get(type, ref),
      list: (type, query, from) => store.list(type, query, from),
      create: async (type, object) => tell(type, await store.create(type, object)),
      patch: async (type, ref, patch, how) => tell(type, await store.patch(type, ref, patch, how)),
      delete: async (type, ref, precondition) => {
        const raw = await store.get(type, ref)
        await store.delete(type, ref, precondition)
        const deletionTimestamp = new Date(this.#clock.now()).toISOString()
        tell(type, { ...raw, metadata: { ...raw.metadata, deletionTimestamp } })
      },
    }
  }
}
