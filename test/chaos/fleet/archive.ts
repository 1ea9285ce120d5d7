/**
 * Records everything that was ever in the store: retention deletes while a fleet runs, so what is compared in the end is read
 * periodically, like with `kubectl get`.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { deliverySegments } from '../../../src/apis/delivery-segment.ts'
import type { ResourceType } from '../../../src/apis/meta.ts'
import { outcomeSegments } from '../../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../../src/apis/webhook-delivery.ts'
import { webhookEvents } from '../../../src/apis/webhook-event.ts'
import type { RawObject, ResourceReader } from '../../../src/kube/client.ts'
import { isFinal } from '../../../src/webhooks/delivery/plan.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'

export type ArchiveOptions = {
  api: ResourceReader
  organizations: readonly string[]
  /** How long ended objects are kept. */
  retentionMs: number
}

/** The last state of an object. Times by `performance.now()`. */
export type Kept = {
  raw: RawObject
  /** Start of the last scan that found it absent or unfinished. */
  openAt: number
  /** Start of the last scan that found it. */
  seenAt: number
  /** End of the first scan that found it finished; absent until then. */
  endSeenAt?: number
  /** End of the first list without it; absent while it exists. */
  missedAt?: number
}

const READ_EVERY_MS = 3000
const AGAIN_MS = 200
/** Share of the retention time: scans at this interval miss nothing. */
const SAFE_SHARE = 0.9

export class Archive {
  readonly #options: ArchiveOptions
  readonly #shelves: readonly Shelf[]
  readonly #ended = new AbortController()
  #loops: Promise<unknown> = Promise.resolve()

  constructor(options: ArchiveOptions) {
    this.#options = options
    const { organizations } = options
    this.#shelves = [
      new Shelf(options.api, deliverySegments, [OPERATOR_NAMESPACE]),
      new Shelf(options.api, outcomeSegments, [OPERATOR_NAMESPACE]),
      new Shelf(options.api, webhookDeliveries, organizations),
      new Shelf(options.api, webhookEvents, organizations),
    ]
  }

  get segments(): readonly Kept[] {
    return this.#of(deliverySegments)
  }

  get outcomes(): readonly Kept[] {
    return this.#of(outcomeSegments)
  }

  get deliveries(): readonly Kept[] {
    return this.#of(webhookDeliveries)
  }

  get events(): readonly Kept[] {
    return this.#of(webhookEvents)
  }

  /** Describes possible gaps: objects that existed for less than the time between two scans. */
  get wrong(): string[] {
    const mostMs = this.#options.retentionMs * SAFE_SHARE
    return this.#shelves
      .filter(({ longestMs }) => longestMs >= mostMs)
      .map(
        ({ type, longestMs }) =>
          `${type.plural} could not be read for ${Math.round(longestMs)} ms: what went meanwhile is not known`,
      )
  }

  start(): void {
    this.#loops = Promise.all(this.#shelves.map((shelf) => this.#read(shelf)))
  }

  /** Scans once more. @throws Error if the store cannot be read */
  async stop(): Promise<void> {
    this.#ended.abort()
    await this.#loops
    await Promise.all(this.#shelves.map((shelf) => shelf.look()))
  }

  async #read(shelf: Shelf): Promise<void> {
    const { signal } = this.#ended
    shelf.begin()
    while (!signal.aborted) {
      const pause = await shelf.look().then(
        () => READ_EVERY_MS,
        () => AGAIN_MS,
      )
      await sleep(pause, undefined, { signal }).catch(() => undefined)
    }
  }

  #of(type: ResourceType): readonly Kept[] {
    return this.#shelves.find((shelf) => shelf.type === type)?.kept ?? []
  }
}

/** Objects of one kind, by their UIDs. */
class Shelf {
  readonly type: ResourceType
  readonly #api: ResourceReader
  readonly #namespaces: readonly string[]
  readonly #byUid = new Map<string, Kept>()
  /** Start of the last completed scan. */
  #lookedAt = performance.now()
  #longestMs = 0

  constructor(api: ResourceReader, type: ResourceType, namespaces: readonly string[]) {
    this.#api = api
    this.type = type
    this.#namespaces = namespaces
  }

  get kept(): readonly Kept[] {
    return [...this.#byUid.values()]
  }

  /** Maximum time between the start of one scan and the end of the next. */
  get longestMs(): number {
    return this.#longestMs
  }

  begin(): void {
    this.#lookedAt = performance.now()
  }

  /** @throws Error if the store cannot be read */
  async look(): Promise<void> {
    const begun = performance.now()
    const lists = this.#namespaces.map((namespace) => listAll(this.#api, this.type, { namespace }))
    const found = (await Promise.all(lists)).flat()
    const now = performance.now()
    const there = new Set(found.map(({ metadata: { uid = '' } }) => uid))
    for (const raw of found) {
      const { uid = '' } = raw.metadata
      const before = this.#byUid.get(uid)
      this.#byUid.set(uid, keptOf(raw, before, { begun, now, lookedAt: this.#lookedAt }))
    }
    for (const [uid, kept] of this.#byUid) if (!there.has(uid)) kept.missedAt ??= now
    this.#longestMs = Math.max(this.#longestMs, now - this.#lookedAt)
    this.#lookedAt = begun
  }
}

/** The state of objects that have one. */
function keptOf(
  raw: RawObject,
  before: Kept | undefined,
  { begun, now, lookedAt }: { begun: number; now: number; lookedAt: number },
): Kept {
  const { state } = (raw.status ?? {}) as { state?: Parameters<typeof isFinal>[0] | 'dispatched' }
  if (state !== 'dispatched' && !isFinal(state)) return { raw, openAt: begun, seenAt: begun }
  const { openAt = lookedAt, endSeenAt = now } = before ?? {}
  return { raw, openAt, seenAt: begun, endSeenAt }
}
