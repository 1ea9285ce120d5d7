import { ApiError, type ResourceReader, type ResourceWriter } from '../../src/kube/client.ts'
import type { Clock } from '../../src/lib/time.ts'
import type { SendOutcome, WebhookSender } from '../../src/webhooks/sender/send-failures.ts'

/** A process that can be suspended (SIGSTOP, a sleeping machine) and ended: none of its code runs then. */
export class Suspension {
  #gate: PromiseWithResolvers<void> | undefined
  isDead = false

  get isOn(): boolean {
    return this.#gate !== undefined
  }

  begin(): void {
    this.#gate ??= Promise.withResolvers()
  }

  end(): void {
    this.#gate?.resolve()
    this.#gate = undefined
  }

  /** Resolves when the process runs. */
  async over(): Promise<void> {
    while (this.#gate) await this.#gate.promise
  }

  /** Timers of the process. */
  clock(clock: Clock): Clock {
    const run = (task: () => void) => {
      if (this.isDead) return
      if (this.#gate) void this.over().then(() => run(task))
      else task()
    }
    return {
      now: () => Math.floor(clock.now()),
      monotonic: () => clock.monotonic(),
      after: (ms, task) => {
        let isCanceled = false
        const cancel = clock.after(ms, () => run(() => isCanceled || task()))
        return () => {
          isCanceled = true
          cancel()
        }
      },
    }
  }

  /** A request that was sent proceeds; the process gets the answer when it runs. */
  sender(sender: WebhookSender): WebhookSender {
    return {
      send: async (request, signal): Promise<SendOutcome> => {
        const outcome = await sender.send(request, signal)
        await this.over()
        return outcome
      },
    }
  }

  /**
   * The connection to a store. A call that was made before a suspension takes effect during it, or when the process is resumed.
   * @param delayMs of one direction
   * @param mayWait whether a call in transit waits until the process is resumed
   */
  api(
    store: ResourceReader & ResourceWriter,
    clock: Clock,
    way: { delayMs: () => number; mayWait: () => boolean },
  ): ResourceReader & ResourceWriter {
    const sleep = () => new Promise<void>((resolve) => void clock.after(way.delayMs(), resolve))
    const live = () => {
      if (this.isDead) throw new ApiError('Unavailable', 'the process has ended')
    }
    const call = async <T>(effect: () => Promise<T>): Promise<T> => {
      live()
      await sleep()
      if (this.isOn && way.mayWait()) {
        await this.over()
        await sleep()
      }
      const [outcome] = await Promise.allSettled([effect()])
      await sleep()
      await this.over()
      live()
      if (outcome.status === 'rejected') throw outcome.reason
      return outcome.value
    }
    return {
      get: (...args) => call(() => store.get(...args)),
      list: (...args) => call(() => store.list(...args)),
      create: (...args) => call(() => store.create(...args)),
      patch: (...args) => call(() => store.patch(...args)),
      delete: (...args) => call(() => store.delete(...args)),
    }
  }
}
