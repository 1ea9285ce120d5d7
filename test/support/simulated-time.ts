import type { Clock } from '../../src/lib/time.ts'

type Event = { at: number; order: number; run: () => void }

/** The true time of a simulated world: scheduled events in order. In milliseconds. */
export class SimulatedTime {
  readonly #heap: Event[] = []
  #order = 0
  now = 0

  at(inMs: number, run: () => void): void {
    this.#order += 1
    push(this.#heap, { at: this.now + inMs, order: this.#order, run })
  }

  /** Runs until that moment; promises proceed after each event. */
  async runUntil(end: number): Promise<void> {
    for (let next = this.#heap[0]; next && next.at <= end; next = this.#heap[0]) {
      pop(this.#heap)
      this.now = next.at
      next.run()
      await new Promise((resolve) => setImmediate(resolve))
    }
    this.now = end
  }
}

/** The clock of one process, which has its own rate, and fires nothing while the process is suspended or after its end. */
export class SimulatedClock implements Clock {
  readonly #time: SimulatedTime
  readonly #rate: number
  #wallOffset: number
  #stoppedUntil = 0
  #isDead = false

  constructor(time: SimulatedTime, { rate, wallOffset }: { rate: number; wallOffset: number }) {
    this.#time = time
    this.#rate = rate
    this.#wallOffset = wallOffset
  }

  get isDead(): boolean {
    return this.#isDead
  }

  get isStopped(): boolean {
    return this.#time.now < this.#stoppedUntil
  }

  now(): number {
    return 1_700_000_000_000 + this.#wallOffset + this.#time.now
  }

  monotonic(): number {
    return this.#time.now * this.#rate
  }

  after(ms: number, run: () => void): () => void {
    let isCanceled = false
    this.#time.at(ms / this.#rate, () => this.run(() => isCanceled || run()))
    return () => {
      isCanceled = true
    }
  }

  /** Runs a task in this process: now, after it is resumed, or never. */
  run(task: () => void): void {
    if (this.#isDead) return
    const left = this.#stoppedUntil - this.#time.now
    if (left > 0) this.#time.at(left, () => this.run(task))
    else task()
  }

  stopFor(ms: number): void {
    this.#stoppedUntil = Math.max(this.#stoppedUntil, this.#time.now + ms)
  }

  kill(): void {
    this.#isDead = true
  }

  setWallBy(ms: number): void {
    this.#wallOffset += ms
  }
}

function isBefore(one: Event, other: Event): boolean {
  return one.at === other.at ? one.order < other.order : one.at < other.at
}

function push(heap: Event[], event: Event): void {
  let at = heap.length
  heap.push(event)
  while (at > 0) {
    const parent = (at - 1) >> 1
    const above = heap[parent] as Event
    if (isBefore(above, event)) break
    heap[at] = above
    at = parent
  }
  heap[at] = event
}

function pop(heap: Event[]): void {
  const last = heap.pop() as Event
  if (heap.length === 0) return
  let at = 0
  for (;;) {
    let child = 2 * at + 1
    if (child >= heap.length) break
    if (child + 1 < heap.length && isBefore(heap[child + 1] as Event, heap[child] as Event)) child += 1
    if (isBefore(last, heap[child] as Event)) break
    heap[at] = heap[child] as Event
    at = child
  }
  heap[at] = last
}
