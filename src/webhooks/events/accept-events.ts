/**
 * Publishing what was made with kubectl: one namespace at a time, in the order of creation. A
 * namespace's events go into the log together, so that their order there is the order of their creation.
 */
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import type { EventOutline } from '../../apis/event-outline.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { listObjects } from '../../kube/every-object.ts'
import { decideState } from '../endpoints/endpoint-state.ts'
import { sizeOf } from '../log/codec.ts'
import type { EventLog } from '../log/store.ts'
import { type ValidatedEvent, type ValidateEventOptions, validateEvent } from './accept.ts'
import { type Subscriber, subscriberOf } from './fan-out.ts'
import { eventName } from './store.ts'
import type { EventDecision } from './verdict.ts'

export type PublishEventsOptions = ValidateEventOptions & {
  log: EventLog
  /** Told of each event, by the 26 characters of its id, that is about to be appended. */
  appending: (name: string, deliveries: number) => void
  /** Told of each of these when it is in the log. */
  appended: (name: string, version: number) => void
  /** Told of each that is in the log already, and was shown. */
  found: (name: string) => void
  /** An append of it has no answer, and may be shown yet. */
  isUnanswered: (name: string) => boolean
  /** Deliveries that the organization may have more; an event is accepted whole where there is any room. */
  room: number
  /** After so long no other event is looked at, milliseconds. */
  lookMs: number
}

export type DecidedEvent = { event: EventOutline; verdict: EventDecision }

const MAX_BATCH_BYTES = 192 * 1024

/**
 * Accepts or refuses as many of `waiting`, from the first on, as fit in one append. What the log holds already is accepted whatever
 * has changed since: a crash may have come between the append and the note in the status.
 * @returns one verdict for each, in order; those that were deleted meanwhile are left out
 * @throws ApiError what may pass by itself; nothing was accepted then, or will be again under the same ids
 */
export async function publishEvents(
  options: PublishEventsOptions,
  namespace: string,
  waiting: readonly EventOutline[],
): Promise<DecidedEvent[]> {
  const { clock } = options
  const subscribers = await listSubscribers(options.resources, namespace)
  const judged: DecidedEvent[] = []
  const batch: AcceptedEvent[] = []
  let bytes = 0
  let { room } = options
  const until = clock.monotonic() + options.lookMs
  const isEnough = () => room <= 0 || (judged.length > 0 && clock.monotonic() > until)
  for (const event of waiting) {
    if (isEnough()) break
    const found = await validateEvent(options, event, subscribers)
    if (found === 'gone') continue
    if (isPremature(options, event, found)) break
    const { verdict, append, isShown } = found
    bytes += sizeOf(append).bytes
    if (batch.length > 0 && bytes > MAX_BATCH_BYTES) break
    judged.push({ event, verdict })
    room -= verdict.kind === 'accepted' ? verdict.deliveries : 0
    batch.push(...append)
    if (isShown) options.found(eventName(event))
  }
  if (batch.length > 0) await append(options, batch)
  return judged
}

/** Whoever would get it has changed since it was appended: it is not said to go to nobody while it may be on its way to them. */
function isPremature(
  { isUnanswered }: PublishEventsOptions,
  event: EventOutline,
  { append, isShown }: ValidatedEvent,
): boolean {
  return append.length === 0 && !isShown && isUnanswered(eventName(event))
}

async function append(options: PublishEventsOptions, batch: readonly AcceptedEvent[]): Promise<void> {
  for (const { event, targets } of batch) options.appending(event.id, targets.length)
  const { version } = await options.log.append(batch)
  for (const { event } of batch) options.appended(event.id, version)
}

/** The endpoints as they are now: a watch may be behind what the same person made a moment ago. */
async function listSubscribers(resources: ResourceReader, namespace: string): Promise<Subscriber[]> {
  const subscribers: Subscriber[] = []
  for await (const raw of listObjects(resources, webhookEndpoints, { namespace })) {
    const { data } = webhookEndpoint.safeParse(raw)
    if (data) subscribers.push(subscriberOf(data, decideState(data).state === 'enabled'))
  }
  return subscribers
}
