/** What metrics tell of lanes. */
import type { Delivery } from './delivery.ts'
import type { EndpointQueue, EndpointRef, Failing } from './queue.ts'

/** Lanes with something to send; a lane stays for as long as its endpoint does. */
export function busyQueues(lanes: Iterable<EndpointQueue>): number {
  let busy = 0
  for (const { size } of lanes) if (size > 0) busy += 1
  return busy
}

/**
 * Seconds by which what is due longest has not been sent: `davit` where its endpoint would take it, `endpoint` where it waits for
 * its endpoint, which hangs or, being ordered, has something before it. What a disabled endpoint holds is not late.
 */
export type Lateness = { davit: number; endpoint: number }

export function lateSeconds(lanes: Iterable<EndpointQueue>, now: number): Lateness {
  const since = { davit: now, endpoint: now }
  for (const lane of lanes) {
    if (lane.paused || lane.size === 0) continue
    const cause = lane.isHeldUp ? 'endpoint' : 'davit'
    for (const delivery of lane.members()) since[cause] = Math.min(since[cause], dueSince(delivery) ?? now)
  }
  return { davit: (now - since.davit) / 1000, endpoint: (now - since.endpoint) / 1000 }
}

/** Nothing but Davit itself puts a first attempt off, so that one waits from the acceptance on. */
function dueSince({ stage, attempts, acceptedAt, dueAt }: Delivery): number | undefined {
  if (attempts === 0) return stage === 'queued' || stage === 'waiting' ? acceptedAt : undefined
  return stage === 'queued' ? Math.max(acceptedAt, dueAt) : undefined
}

/** `class` is how the last attempt ended; `unknown` where another process saw it. */
export type FailingEndpoint = Pick<EndpointRef, 'namespace' | 'name'> & {
  class: Failing['class'] | 'unknown'
  seconds: number
  attempts: number
}

/** Those whose last attempt failed and that are not disabled; longest first. @param now milliseconds since 1970 */
export function failingEndpoints(lanes: Iterable<EndpointQueue>, now: number): FailingEndpoint[] {
  const found: FailingEndpoint[] = []
  for (const lane of lanes) {
    if (lane.paused) continue
    const failing = lane.failing === 'unseen' ? failedBefore(lane) : lane.failing
    if (!failing) continue
    const { namespace, name } = lane.endpoint
    const seconds = Math.max(0, now - failing.since) / 1000
    found.push({ namespace, name, seconds, attempts: failing.attempts, class: failing.class })
  }
  return found.sort((a, b) => b.seconds - a.seconds)
}

type FailedBefore = Omit<Failing, 'class'> & { class: 'unknown' }

/** What another process has left, until an attempt here tells more. */
function failedBefore(lane: EndpointQueue): FailedBefore | undefined {
  let found: FailedBefore | undefined
  for (const { attempts, acceptedAt } of lane.members()) {
    if (attempts === 0) continue
    const since = Math.min(found?.since ?? acceptedAt, acceptedAt)
    found = { attempts: (found?.attempts ?? 0) + attempts, since, class: 'unknown' }
  }
  return found
}
