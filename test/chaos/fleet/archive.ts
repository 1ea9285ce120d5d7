/**
 * What was ever in the store: retention deletes while a fleet runs, so what is to be compared in the end is read again and again, as
 * `kubectl get` would.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { deliverySegments } from '../../../src/apis/delivery-segment.ts'
import type { ResourceType } from '../../../src/apis/meta.ts'
import { outcomeSegments } from '../../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../../src/apis/webhook-delivery.ts'
import { webhookEvents } from '../../../src/apis/webhook-event.ts'
import type { RawObject, ResourceReader } from '../../../src/kube/client.ts'
import { isFinal } from '../../../src/webhooks/delivery/status.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'

export type ArchiveOptions = {
  api: ResourceReader
  organizations: readonly string[]
  /** What has ended stays for so long. */
  retentionMs: number
}

/** What was last seen of an object. Times by `performance.now()`. */
export type Kept = {
  raw: RawObject
  /** When the last look began that did not find it, or not finished. */
  openAt: number
  /** When the last look began that found it. */
  seenAt: number
  /** When the first look ended that showed it at its end; absent until then. */
  endShownAt?: number
  /** When the first list ended that did not have it any more; absent while it is there. */
  missedAt?: number
}

const READ_EVERY_MS = 3000
const AGAIN_MS = 200
/** Of the time for which what has ended stays: whoever looks so often misses nothing. */
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

  /** What it may have missed, in words: what stayed for less than the time between two looks. */
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

  /** Looks once more. @throws Error when the store cannot be read */
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
  /** When the last look began that came to its end. */
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

  /** Between the begin of one look and the end of the next, at most. */
  get longestMs(): number {
    return this.#longestMs
  }

  begin(): void {
    this.#lookedAt = performance.now()
  }

  /** @throws Error when the store cannot be read */
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

/** The state of those that have one. */
function keptOf(
  raw: RawObject,
  before: Kept | undefined,
  { begun, now, lookedAt }: { begun: number; now: number; lookedAt: number },
): Kept {
  const { state } = (raw.status ?? {}) as { state?: Parameters<typeof isFinal>[0] | 'dispatched' }
  if (state !== 'dispatched' && !isFinal(state)) return { raw, openAt: begun, seenAt: begun }
  const { openAt = lookedAt, endShownAt = now } = before ?? {}
  return { raw, openAt, seenAt: begun, endShownAt }
}
