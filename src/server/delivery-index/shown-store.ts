/** Takes WebhookDelivery objects into the lines as a reflector reads them, and keeps what the lines keep. */
import type { ObjectIdentity, Source, Store } from '../../kube/object-store.ts'
import type { DeliveryLines } from './delivery-index-delivery-lines.ts'
import { NONE } from './line-table.ts'
import { lineOfObject, type ObjectDelivery } from './shown-lines.ts'

/** Lines looked at in one step at the end of a list. */
const STEP = 64

export class ObjectDeliveryStore implements Store<ObjectDelivery> {
  readonly #lines: DeliveryLines
  readonly #onSetBack: () => void
  /** All objects are known as of this version, from a complete list. */
  #floor = 0
  #listing = false
  /** Versions at which events deleted objects while a list was being read, which may still show them. */
  #deletedMeanwhile = new Map<string, number>()

  /** @param onSetBack the API server's store is an older one: nothing that was read of it holds any more */
  constructor(lines: DeliveryLines, onSetBack: () => void) {
    this.#lines = lines
    this.#onSetBack = onSetBack
  }

  get size(): number {
    return this.#lines.size
  }

  get(): undefined {
    return undefined
  }

  *values(): IterableIterator<ObjectDelivery> {}

  isNews({ key, version }: ObjectIdentity, source: Source): boolean {
    const { table } = this.#lines.lines
    const line = lineOfObject(this.#lines.lines, key)
    if (line !== NONE && source === 'list') table.markListed(line)
    const stale = source === 'event' ? this.#floor : (this.#deletedMeanwhile.get(key) ?? 0)
    return version > stale && version > (line === NONE ? 0 : table.objectVersion(line))
  }

  apply({ key, version }: ObjectIdentity, shown: ObjectDelivery): void {
    this.#lines.object(shown, version)
    if (!this.#listing) return
    const line = lineOfObject(this.#lines.lines, key)
    if (line !== NONE) this.#lines.lines.table.markListed(line)
  }

  delete({ key, version }: ObjectIdentity): void {
    if (this.#listing) this.#deletedMeanwhile.set(key, version)
    this.#lines.objectGone(key)
  }

  beginList(): void {
    this.abandonList()
    this.#lines.lines.table.unmarkAll()
    this.#listing = true
  }

  *endList(listVersion: number, complete: boolean): IterableIterator<void> {
    const { table } = this.#lines.lines
    for (let line = 0; complete && line < table.end; line += 1) {
      const isMissing =
        table.hasObject(line) && table.objectVersion(line) <= listVersion && !table.isListed(line)
      if (isMissing) this.#lines.objectOfLineGone(line)
      if (line % STEP === 0) yield
    }
    this.abandonList()
    if (!complete) return
    this.#floor = Math.max(this.#floor, listVersion)
    this.#lines.objectsSeenUpTo(listVersion)
  }

  abandonList(): void {
    this.#listing = false
    this.#deletedMeanwhile = new Map()
  }

  seenUpTo(version: number): void {
    this.#lines.objectsSeenUpTo(version)
  }

  age(): void {
    this.#onSetBack()
  }
}
