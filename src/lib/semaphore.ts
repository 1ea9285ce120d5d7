import { FairQueue, SharedCapacity } from './fair-queue.ts'

/** What bounds how much runs at once: a mutex per key, semaphores, groups. */

/** One task at a time per key, in the order of the calls; different keys do not wait for each other. */
export class KeyedMutex {
  readonly #tails = new Map<string, Promise<unknown>>()

  /** Keys with a task that runs or waits. */
  get size(): number {
    return this.#tails.size
  }

  /** The result of `work`; a failure of an earlier task does not matter. */
  run<T>(key: string, work: () => Promise<T>): Promise<T> {
    const before = this.#tails.get(key) ?? Promise.resolve()
    const result = before.then(work)
    const tail = result
      .catch(() => undefined)
      .then(() => {
        if (this.#tails.get(key) === tail) this.#tails.delete(key)
      })
    this.#tails.set(key, tail)
    return result
  }
}

export type SemaphoreLimits = {
  atOnce: number
  /** Leaves some slots to groups that use none, however long the tasks of the others take. Absent: one group may take all of them. */
  reserves?: boolean
  /** How many may wait; one more is rejected with the error, one of the group with the most if it has fewer. Absent: any number. */
  waiting?: { max: number; full: () => Error }
}

type RunOptions = { urgency?: Urgency; group?: string }

type Waiting = { start(): void; reject(error: Error): void }

/** `canWait`: of work that nothing else waits for. */
export type Urgency = 'urgent' | 'normal' | 'canWait'

/** One in so many starts is of work that can wait, however much else there is. */
const CAN_WAIT_EVERY = 8

/**
 * Bounds how many tasks run at once. The rest waits: more urgent ones before the others, and those of one urgency in turns by group, so
 * that the many tasks of one group delay only that group.
 */
export class Semaphore {
  readonly #limits: SemaphoreLimits
  readonly #queues: Record<Urgency, FairQueue<Waiting>> = {
    urgent: new FairQueue(),
    normal: new FairQueue(),
    canWait: new FairQueue(),
  }
  readonly #running: SharedCapacity
  #starts = 0

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits
    this.#running = new SharedCapacity(limits.atOnce)
  }

  get isIdle(): boolean {
    return this.#running.used === 0
  }

  /** The result of `work`. @throws the error of the limit, and whatever `work` throws */
  async run<T>(work: () => Promise<T>, how: RunOptions = {}): Promise<T> {
    const { urgency = 'normal', group = '' } = how
    if (this.#mayStart(group)) this.#running.take(group, 1)
    else await this.#turn(this.#queues[urgency], group)
    try {
      return await work()
    } finally {
      this.#running.give(group, 1)
      this.#startNext()
    }
  }

  #mayStart(group: string): boolean {
    return this.#limits.reserves ? this.#running.hasRoom(group) : !this.#running.isFull
  }

  /** Before anything else runs, so that no new task gets in between. */
  #startNext(): void {
    const { urgent, normal, canWait } = this.#queues
    this.#starts += 1
    const isTheirTurn = this.#starts % CAN_WAIT_EVERY === 0
    for (const queue of isTheirTurn ? [canWait, urgent, normal] : [urgent, normal, canWait]) {
      const next = queue.take((group) => this.#mayStart(group))
      next?.start()
      if (next) return
    }
  }

  #turn(queue: FairQueue<Waiting>, group: string): Promise<void> {
    const { waiting } = this.#limits
    const { urgent, normal, canWait } = this.#queues
    if (waiting && urgent.size + normal.size + canWait.size >= waiting.max) {
      const displaced = queue.takeFromLargest(group)
      if (!displaced) throw waiting.full()
      displaced.reject(waiting.full())
    }
    return new Promise((resolve, reject) => {
      const start = () => {
        this.#running.take(group, 1)
        resolve()
      }
      queue.push(group, { start, reject })
    })
  }
}

/** A semaphore per name, so that one that asks for much delays only itself. */
export class KeyedSemaphore {
  readonly #limits: SemaphoreLimits
  readonly #semaphores = new Map<string, Semaphore>()

  constructor(limits: SemaphoreLimits) {
    this.#limits = limits
  }

  /** The result of `work`. @throws the error of the limit, and whatever `work` throws */
  async run<T>(name: string, work: () => Promise<T>): Promise<T> {
    const semaphore = this.#semaphores.get(name) ?? new Semaphore(this.#limits)
    this.#semaphores.set(name, semaphore)
    try {
      return await semaphore.run(work)
    } finally {
      if (semaphore.isIdle) this.#semaphores.delete(name)
    }
  }
}

/** The results of `act`, in order. `size` items at a time: the next group starts when the last of a group has ended. */
export async function inGroups<T, R>(
  items: readonly T[],
  size: number,
  act: (item: T) => Promise<R>,
): Promise<R[]> {
  const results: R[] = []
  for (let from = 0; from < items.length; from += size)
    results.push(...(await Promise.all(items.slice(from, from + size).map(act))))
  return results
}
