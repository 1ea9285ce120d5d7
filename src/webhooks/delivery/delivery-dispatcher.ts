/**
 * Gives lanes fair turns: each lane that has something to start gets one start per round, under one bound on
 * attempts at a time for the whole process.
 */

import { Fifo } from '../../lib/semaphore.ts'
import type { Delivery } from './delivery.ts'
import type { EndpointQueue } from './queue.ts'

export type DispatcherOptions = {
  maxInFlight: number
  /** False while nothing new may be sent (outcomes cannot be stored, the process is ending). */
  mayStart: () => boolean
  /** False for a lane that another replica drives, or might: it is woken when that changes. */
  mayRun: (lane: EndpointQueue) => boolean
  /** Runs one attempt; resolves when the delivery no longer holds its lane. Must not reject. */
  run: (delivery: Delivery) => Promise<void>
}

export class Dispatcher {
  readonly #options: DispatcherOptions
  readonly #runnable = new Fifo<EndpointQueue>()
  #inFlight = 0
  #pumping = false

  constructor(options: DispatcherOptions) {
    this.#options = options
  }

  get inFlight(): number {
    return this.#inFlight
  }

  get waitingQueues(): number {
    return this.#runnable.size
  }

  /** The lane may have something to start. */
  wake(lane: EndpointQueue): void {
    if (!lane.listed) {
      lane.listed = true
      this.#runnable.push(lane)
    }
    this.pump()
  }

  /** Starts what may start. Called again when something that `mayStart` looks at has changed. */
  pump(): void {
    if (this.#pumping) return
    this.#pumping = true
    try {
      while (this.#inFlight < this.#options.maxInFlight && this.#options.mayStart()) {
        const lane = this.#runnable.shift()
        if (!lane) return
        lane.listed = false
        if (!this.#options.mayRun(lane)) continue
        const delivery = lane.startNext()
        if (!delivery) continue
        lane.listed = true
        this.#runnable.push(lane)
        this.#start(lane, delivery)
      }
    } finally {
      this.#pumping = false
    }
  }

  #start(lane: EndpointQueue, delivery: Delivery): void {
    this.#inFlight += 1
    void this.#options.run(delivery).finally(() => {
      this.#inFlight -= 1
      this.wake(lane)
    })
  }
}
