/** Takes the segments of the log into the lines as a reflector reads them, and keeps their names alone. */

import type { ObjectIdentity, Source, Store } from '../../kube/object-store.ts'
import type { LogSegment } from '../../webhooks/log/store.ts'
import type { DeliveryLines } from './delivery-index-delivery-lines.ts'

export class SegmentStore implements Store<LogSegment> {
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  #listed: Set<string> | undefined
  /** Deleted by events while a list was being read, which may still show them. */
  #deletedMeanwhile: Set<string> | undefined

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get size(): number {
    return this.#lines.lines.segments.size
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<LogSegment> {}

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const name = nameIn(key)
    if (source === 'list') {
      this.#listed?.add(name)
      if (this.#deletedMeanwhile?.has(name)) return false
    }
    // It is never updated: only its deletion has a later version.
    return version > (this.#lines.segmentVersion(name) ?? 0)
  }

  apply(_identity: ObjectIdentity, segment: LogSegment): void {
    this.#lines.segment(segment)
  }

  delete({ key }: ObjectIdentity): void {
    this.#deletedMeanwhile?.add(nameIn(key))
    this.#lines.segmentGone(nameIn(key))
  }

  beginList(): void {
    this.#listed = new Set()
    this.#deletedMeanwhile = new Set()
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const listed = this.#listed
    this.abandonList()
    const { segments } = this.#lines.lines
    for (const name of complete && listed ? [...segments.names()] : []) {
      const version = segments.find(name)?.version ?? 0
      if (version <= listVersion && !listed?.has(name)) yield this.#lines.segmentGone(name)
    }
    yield* this.#lines.segmentsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listed = undefined
    this.#deletedMeanwhile = undefined
  }

  seenUpTo(version: number): void {
    for (const _ of this.#lines.segmentsSeenUpTo(version));
  }

  age(): void {
    this.#onSetBack()
  }
}

function nameIn(key: string): string {
  return key.slice(key.indexOf('/') + 1)
}
