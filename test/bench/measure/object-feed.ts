/** Follows the WebhookDeliveries of an organization, and notes when it sees those of a load. */
import { setTimeout as sleep } from 'node:timers/promises'
import { webhookDeliveries, webhookDelivery } from '../../../src/apis/webhook-delivery.ts'
import { Informer } from '../../../src/kube/informer.ts'
import type { Bed } from '../bed.ts'
import { type BenchStamp, readStamp } from '../loads/event.ts'
import type { Route } from '../loads/publishing.ts'
import { microseconds } from './instant.ts'
import { delaysOf, type ObjectDelays } from './object-delays.ts'

/** `hasAttempt`: its status is written, which takes a write after that of the object. */
type Seen = { stamp: BenchStamp; hasAttempt: boolean }
type SeenTimes = { object: Map<number, number>; attempt: Map<number, number> }

export type ObjectFeed = {
  /**
   * Waits for the objects of all deliveries that a load made, for half a minute at most.
   * @param path of the receiver, or its beginning
   */
  delaysOf(run: number, path: string): Promise<ObjectDelays>
  stop(): Promise<void>
}

/** An object that comes later counts as missing. */
const LATEST_MS = 30_000
const POLL_MS = 100

/** @param routes of one organization */
export async function followObjects(bed: Bed, routes: readonly Route[]): Promise<ObjectFeed> {
  const namespace = routes[0]?.namespace ?? ''
  const runs = new Map<number, SeenTimes>()
  const timesOf = (run: number) => {
    const times = runs.get(run) ?? { object: new Map(), attempt: new Map() }
    runs.set(run, times)
    return times
  }
  const options = {
    type: webhookDeliveries,
    query: { namespace },
    decode: seenOf,
    handler: { applied: (seen: Seen) => note(timesOf(seen.stamp.run), seen) },
  }
  const informer = new Informer(options, bed.informers).start()
  await informer.synced
  return {
    async delaysOf(run, path) {
      const receivedAt = await bed.receiver.call('receipts', path)
      const times = timesOf(run)
      const limit = performance.now() + LATEST_MS
      while (times.attempt.size < receivedAt.size && performance.now() < limit) await sleep(POLL_MS)
      return {
        deliveries: receivedAt.size,
        object: delaysOf(receivedAt, times.object),
        attempt: delaysOf(receivedAt, times.attempt),
      }
    },
    stop: () => informer.stop(),
  }
}

function seenOf(raw: unknown): Seen | undefined {
  const { spec, status, isUnwritten } = webhookDelivery.parse(raw)
  const stamp = readStamp(spec.payload ?? '')
  return stamp && { stamp, hasAttempt: !isUnwritten && (status?.attemptCount ?? 0) > 0 }
}

/** Only the first time counts. */
function note(times: SeenTimes, { stamp: { n }, hasAttempt }: Seen): void {
  const now = microseconds()
  if (!times.object.has(n)) times.object.set(n, now)
  if (hasAttempt && !times.attempt.has(n)) times.attempt.set(n, now)
}
