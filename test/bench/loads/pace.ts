/** The two paces of a load: as fast as answers come, or at a rate whatever the answers do. */
import { setTimeout as sleep } from 'node:timers/promises'
import { microseconds } from '../measure/instant.ts'

/** Does the n-th thing (from 0), which came about at `at`, in microseconds of `instant.ts`. */
export type Act = (n: number, at: number) => Promise<void>

export type ClosedLoop = {
  publishers: number
  seconds: number
  /** Ends earlier, after so many. */
  events?: number
  /** Awaited before each. */
  room?: () => Promise<void>
}

/** So many publishers, each beginning its next when its last has ended, until the time or the number is reached. */
export async function closedLoop(load: ClosedLoop, act: Act): Promise<void> {
  const end = microseconds() + load.seconds * 1e6
  const most = load.events ?? Number.POSITIVE_INFINITY
  let n = 0
  const publisher = async () => {
    while (microseconds() < end) {
      await load.room?.()
      if (n >= most) return
      const mine = n
      n += 1
      await act(mine, microseconds())
    }
  }
  await Promise.all(Array.from({ length: load.publishers }, publisher))
}

/**
 * Sends one after another at equal intervals. Each counts from the moment at which it was due, so that a stall of the generator,
 * or of what it calls, shows as latency instead of hiding as a lower rate.
 */
export async function openLoop(load: { perSecond: number; seconds: number }, act: Act): Promise<void> {
  const start = microseconds()
  const total = Math.round(load.perSecond * load.seconds)
  const running = new Set<Promise<void>>()
  let n = 0
  while (n < total) {
    const due = Math.min(total, Math.ceil(((microseconds() - start) / 1e6) * load.perSecond))
    for (; n < due; n += 1) {
      const one = act(n, Math.round(start + (n / load.perSecond) * 1e6))
      running.add(one)
      void one.finally(() => running.delete(one))
    }
    await sleep(1)
  }
  await Promise.all(running)
}
