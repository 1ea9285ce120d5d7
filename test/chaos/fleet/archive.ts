/**
 * What was ever in the store: retention deletes while a fleet runs, so what is to be compared in the end is read again and again, as
 * `kubectl get` would.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { deliverySegments } from '../../../src/api/delivery-segment.ts'
import type { ResourceType } from '../../../src/api/meta.ts'
import { outcomeSegments } from '../../../src/api/outcome-segment.ts'
import { webhookDeliveries } from '../../../src/api/webhook-delivery.ts'
import { webhookEvents } from '../../../src/api/webhook-event.ts'
import { isFinal } from '../../../src/domain/delivery.ts'
import type { RawObject, ResourceReader } from '../../../src/ports/kubernetes.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../stored.ts'

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
  /** When it was first seen to be finished. */
  finishedAt?: number
  /** When the first list ended that did not have it any more; absent while it is there. */
  missedAt?: number
}

type Shelf = Map<string, Kept>

const READ_EVERY_MS = 3000
const AGAIN_MS = 200
/** Of the time for which what has ended stays: whoever looks so often misses nothing. */
const SAFE_SHARE = 0.9

export class Archive {
  readonly #options: ArchiveOptions
  readonly #shelves = new Map<ResourceType, Shelf>()
  readonly #ended = new AbortController()
  #loop: Promise<void> = Promise.resolve()
  /** When the last look began that came to its end. */
  #lookedAt = performance.now()
  #longestMs = 0

  constructor(options: ArchiveOptions) {
    this.#options = options
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
    const { retentionMs } = this.#options
    if (this.#longestMs < retentionMs * SAFE_SHARE) return []
    return [
      `the store could not be read for ${Math.round(this.#longestMs)} ms: what went meanwhile is not known`,
    ]
  }

  start(): void {
    this.#lookedAt = performance.now()
    this.#loop = this.#read()
  }

  /** Looks once more. */
  async stop(): Promise<void> {
    this.#ended.abort()
    await this.#loop
    await this.look()
  }

  /** @throws Error when the store cannot be read */
  async look(): Promise<void> {
    const begun = performance.now()
    await this.#take(deliverySegments, [OPERATOR_NAMESPACE])
    await this.#take(outcomeSegments, [OPERATOR_NAMESPACE])
    await this.#take(webhookDeliveries, this.#options.organizations)
    await this.#take(webhookEvents, this.#options.organizations)
    this.#longestMs = Math.max(this.#longestMs, performance.now() - this.#lookedAt)
    this.#lookedAt = begun
  }

  async #read(): Promise<void> {
    const { signal } = this.#ended
    while (!signal.aborted) {
      const pause = await this.look().then(
        () => READ_EVERY_MS,
        () => AGAIN_MS,
      )
      await sleep(pause, undefined, { signal }).catch(() => undefined)
    }
  }

  async #take(type: ResourceType, namespaces: readonly string[]): Promise<void> {
    const { api } = this.#options
    const begun = performance.now()
    const found = (await Promise.all(namespaces.map((name) => listAll(api, type, name)))).flat()
    const shelf = this.#shelves.get(type) ?? new Map<string, Kept>()
    this.#shelves.set(type, shelf)
    const now = performance.now()
    const there = new Set(found.map(({ metadata: { uid = '' } }) => uid))
    for (const raw of found) {
      const { uid = '' } = raw.metadata
      shelf.set(uid, keptOf(raw, shelf.get(uid), { begun, now, lookedAt: this.#lookedAt }))
    }
    for (const [uid, kept] of shelf) if (!there.has(uid)) kept.missedAt ??= now
  }

  #of(type: ResourceType): readonly Kept[] {
    return [...(this.#shelves.get(type)?.values() ?? [])]
  }
}

/** The state of those that have one. */
function keptOf(
  raw: RawObject,
  before: Kept | undefined,
  { begun, now, lookedAt }: { begun: number; now: number; lookedAt: number },
): Kept {
  const { state } = (raw.status ?? {}) as { state?: Parameters<typeof isFinal>[0] }
  if (!isFinal(state)) return { raw, openAt: begun }
  return { raw, openAt: before?.openAt ?? lookedAt, finishedAt: before?.finishedAt ?? now }
}
