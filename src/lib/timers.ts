const FIRST_CAPACITY = 64

/**
 * Keys by their due time, the earliest on top; a key is in it once. Moving is done in typed arrays, so that a
 * million entries take some 60 MB and no garbage: `heap` holds slots in heap order, and a slot knows its key,
 * its due time and its place in the heap.
 */
export class TimerHeap<K> {
  readonly #slots = new Map<K, number>()
  readonly #free: number[] = []
  #keys: (K | undefined)[] = []
  #due = new Float64Array(FIRST_CAPACITY)
  #places = new Int32Array(FIRST_CAPACITY)
  #heap = new Int32Array(FIRST_CAPACITY)

  get size(): number {
    return this.#slots.size
  }

  /** Sets the due time of a key, whether it was in or not. */
  push(key: K, due: number): void {
    const known = this.#slots.get(key)
    const slot = known ?? this.#enter(key)
    const earlier = known !== undefined && due < this.#dueOf(slot)
    this.#due[slot] = due
    if (known === undefined || earlier) this.#rise(this.#placeOf(slot))
    else this.#sink(this.#placeOf(slot))
  }

  /** Whether the key was in. */
  remove(key: K): boolean {
    const slot = this.#slots.get(key)
    if (slot === undefined) return false
    const place = this.#placeOf(slot)
    const lastPlace = this.size - 1
    const last = this.#slotAt(lastPlace)
    this.#slots.delete(key)
    this.#keys[slot] = undefined
    this.#free.push(slot)
    if (place !== lastPlace) {
      this.#put(last, place)
      this.#rise(place)
      this.#sink(this.#placeOf(last))
    }
    return true
  }

  dueOf(key: K): number | undefined {
    const slot = this.#slots.get(key)
    return slot === undefined ? undefined : this.#dueOf(slot)
  }

  /** The earliest due time. */
  nextDue(): number | undefined {
    return this.size === 0 ? undefined : this.#dueOf(this.#slotAt(0))
  }

  /** Takes out the earliest key if it is due by `now`. */
  popDue(now: number): K | undefined {
    if (this.size === 0) return undefined
    const slot = this.#slotAt(0)
    if (this.#dueOf(slot) > now) return undefined
    const key = this.#keys[slot]
    if (key !== undefined) this.remove(key)
    return key
  }

  #enter(key: K): number {
    const slot = this.#free.pop() ?? this.size
    if (slot >= this.#due.length) this.#grow()
    this.#put(slot, this.size)
    this.#slots.set(key, slot)
    this.#keys[slot] = key
    return slot
  }

  #grow(): void {
    const capacity = this.#due.length * 2
    const [due, places, heap] = [this.#due, this.#places, this.#heap]
    this.#due = new Float64Array(capacity)
    this.#due.set(due)
    this.#places = new Int32Array(capacity)
    this.#places.set(places)
    this.#heap = new Int32Array(capacity)
    this.#heap.set(heap)
  }

  #rise(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let place = from
    while (place > 0) {
      const parent = (place - 1) >> 1
      const above = this.#slotAt(parent)
      if (this.#dueOf(above) <= due) break
      this.#put(above, place)
      place = parent
    }
    this.#put(slot, place)
  }

  #sink(from: number): void {
    const slot = this.#slotAt(from)
    const due = this.#dueOf(slot)
    let place = from
    for (;;) {
      const child = this.#earlierChild(place)
      if (child === undefined || this.#dueOf(this.#slotAt(child)) >= due) break
      this.#put(this.#slotAt(child), place)
      place = child
    }
    this.#put(slot, place)
  }

  #earlierChild(place: number): number | undefined {
    const left = 2 * place + 1
    if (left >= this.size) return undefined
    const right = left + 1
    if (right >= this.size) return left
    return this.#dueOf(this.#slotAt(right)) < this.#dueOf(this.#slotAt(left)) ? right : left
  }

  #put(slot: number, place: number): void {
    this.#heap[place] = slot
    this.#places[slot] = place
  }

  // Places and slots are always within the arrays; the fallbacks only satisfy the compiler.
  #slotAt(place: number): number {
    return this.#heap[place] ?? 0
  }

  #placeOf(slot: number): number {
    return this.#places[slot] ?? 0
  }

  #dueOf(slot: number): number {
    return this.#due[slot] ?? Number.POSITIVE_INFINITY
  }
}
