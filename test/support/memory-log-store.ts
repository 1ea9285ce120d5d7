/** A log in the memory of the process, for tests: it shows that nothing above the port needs Kubernetes. */
import { CLAIMS_LABEL } from '../../src/apis/meta.ts'
import { ApiError } from '../../src/kube/client.ts'
import { type Watch, WatchHealth } from '../../src/kube/watch-restarts.ts'
import type { Clock } from '../../src/lib/time.ts'
import { pollUntil, sleep } from '../../src/lib/time.ts'
import type {
  AppendRules,
  Feed,
  LogStore,
  NewSegment,
  PageQuery,
  SegmentPage,
  Sequence,
  StoredSegment,
} from '../../src/webhooks/log/log-store.ts'

const RETRY_MS = 10
const NAMESPACE = 'memory'

type Change = { sequence: Sequence; segment: StoredSegment; isGone: boolean }

export class MemoryLogStore implements LogStore {
  /** Set to have every append fail. */
  isDown = false
  /** The answers of so many appends are lost. */
  answersToLose = 0
  readonly #clock: Clock
  /** By name, in the order of the log. */
  readonly #segments: Record<Sequence, Map<string, StoredSegment>> = {
    events: new Map(),
    outcomes: new Map(),
  }
  readonly #listeners = new Set<(change: Change) => void>()
  #version = 0

  constructor(clock: Clock) {
    this.#clock = clock
  }

  async append(sequence: Sequence, segment: NewSegment, rules: AppendRules = {}): Promise<StoredSegment> {
    const clock = this.#clock
    const started = clock.monotonic()
    let written: StoredSegment | undefined
    for (;;) {
      if (rules.mayTry) await pollUntil(clock, rules.mayTry, rules.signal)
      if (rules.mayBegin?.() === false) throw new ApiError('Unavailable', 'it may not begin any more')
      try {
        written ??= this.#write(sequence, segment)
        if (this.answersToLose > 0) {
          this.answersToLose -= 1
          throw new ApiError('Unavailable', 'no answer')
        }
        return structuredClone(written)
      } catch (error) {
        const { deadlineMs = Number.POSITIVE_INFINITY, signal } = rules
        if (signal?.aborted || clock.monotonic() - started >= deadlineMs) throw error
        await sleep(clock, RETRY_MS, signal)
      }
    }
  }

  #write(sequence: Sequence, { specOf, hasClaims = false }: NewSegment): StoredSegment {
    if (this.isDown) throw new ApiError('Unavailable', 'the store is down')
    this.#version += 1
    const metadata = {
      name: `segment-${this.#version}`,
      namespace: NAMESPACE,
      uid: `uid-${this.#version}`,
      resourceVersion: String(this.#version),
      creationTimestamp: new Date(this.#clock.now()).toISOString(),
      labels: hasClaims ? { [CLAIMS_LABEL]: 'true' } : {},
    }
    const segment = structuredClone({ metadata, spec: specOf() })
    this.#segments[sequence].set(metadata.name, segment)
    this.#tell({ sequence, segment, isGone: false })
    return segment
  }

  feed<T>(sequence: Sequence, feed: Feed<T>): Watch {
    return new MemoryFeed(feed, {
      clock: this.#clock,
      segments: () => [...this.#segments[sequence].values()],
      version: () => this.#version,
      listen: (listener) => {
        const heard = (change: Change) => {
          if (change.sequence === sequence) listener(change)
        }
        this.#listeners.add(heard)
        return () => void this.#listeners.delete(heard)
      },
    })
  }

  async page(sequence: Sequence, { limit, claimsOnly }: PageQuery, from = '0'): Promise<SegmentPage> {
    const wanted = [...this.#segments[sequence].values()]
      .reverse()
      .filter(
        ({ metadata }) => !claimsOnly || (metadata.labels as Record<string, string>)[CLAIMS_LABEL] === 'true',
      )
    const start = Number(from)
    const segments = structuredClone(wanted.slice(start, start + limit))
    const isLast = start + limit >= wanted.length
    return { segments, version: this.#version, ...(isLast ? {} : { next: String(start + limit) }) }
  }

  async read(sequence: Sequence, name: string): Promise<StoredSegment | undefined> {
    return structuredClone(this.#segments[sequence].get(name))
  }

  async remove(sequence: Sequence, name: string): Promise<void> {
    const segment = this.#segments[sequence].get(name)
    if (!segment) return
    this.#segments[sequence].delete(name)
    this.#version += 1
    this.#tell({ sequence, segment, isGone: true })
  }

  #tell(change: Change): void {
    for (const listener of this.#listeners) queueMicrotask(() => listener(change))
  }
}

type Source = {
  clock: Clock
  segments: () => StoredSegment[]
  version: () => number
  listen: (listener: (change: Change) => void) => () => void
}

class MemoryFeed<T> implements Watch {
  readonly synced: Promise<void>
  readonly health: WatchHealth
  version = 0
  isListed = false
  readonly #feed: Feed<T>
  readonly #source: Source
  readonly #synced = Promise.withResolvers<void>()
  #leave: (() => void) | undefined

  constructor(feed: Feed<T>, source: Source) {
    this.#feed = feed
    this.#source = source
    this.health = new WatchHealth(source.clock)
    this.synced = this.#synced.promise
  }

  start(): this {
    this.relist()
    this.#leave = this.#source.listen(({ segment, isGone }) => {
      if (isGone) this.#feed.handler?.gone?.(`${segment.metadata.namespace}/${segment.metadata.name}`)
      else this.#take(segment)
    })
    this.#synced.resolve()
    return this
  }

  /** Goes backwards, page by page, as far as the feed wants; then hands out what it found in the order of the log. */
  relist(): void {
    const found: StoredSegment[] = []
    const backwards = this.#source.segments().reverse()
    for (let at = 0; at < backwards.length; at += this.#feed.pageSize) {
      const page = backwards.slice(at, at + this.#feed.pageSize)
      found.push(...page)
      if (this.#feed.stopListing?.(page)) break
    }
    for (const segment of found.reverse()) this.#take(segment)
    this.version = Math.max(this.version, this.#source.version())
    this.isListed = true
  }

  reopen(): void {}

  async stop(): Promise<void> {
    this.#leave?.()
  }

  #take(segment: StoredSegment): void {
    const version = Number(segment.metadata.resourceVersion)
    if (version <= this.version && this.isListed) return
    const decoded = this.#feed.decode(structuredClone(segment))
    if (decoded !== undefined) this.#feed.handler?.applied(decoded)
    if (this.isListed) this.version = version
  }
}
