/** Compares the answers to publishers with the log. */
import type { LoggedEvent } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import type { FleetEndpoint } from './endpoints.ts'
import type { FleetEvidence } from './fleet-verdict.ts'
import type { Published } from './publishers.ts'

export type PublishedVerdict = {
  /** Acknowledged while there was no store. */
  unstored: string[]
  missing: string[]
  /** Several events with one number. */
  doubled: string[]
  /** With another id, or another number of deliveries. */
  misanswered: string[]
  /** Missing at permanently enabled endpoints, or sent to those that do not subscribe. */
  misrouted: string[]
  /** At endpoints that are disabled and enabled: violates an answered change. */
  disagreed: string[]
}

type Facts = FleetEvidence & {
  logged: ReadonlyMap<number, LoggedEvent[]>
  receivers: ReadonlyMap<string, Set<string>>
}

export function judgePublished(evidence: FleetEvidence): PublishedVerdict {
  const { log, published } = evidence
  const logged = Map.groupBy(log.events, ({ body }) => numberIn(body))
  const receivers = new Map<string, Set<string>>()
  for (const { id, endpoint } of log.deliveries)
    receivers.set(id, (receivers.get(id) ?? new Set()).add(endpoint))
  const facts = { ...evidence, logged, receivers }
  const away = evidence.faults.flatMap((fault) => fault.away ?? [])
  return {
    unstored: published
      .filter((one) => away.some(({ from, to }) => one.begunAt > from && one.answeredAt < to))
      .map(nameOf),
    missing: published.filter(({ n }) => !logged.has(n)).map(nameOf),
    doubled: [...logged].filter(([, events]) => events.length > 1).map(([n]) => `event ${n}`),
    misanswered: published.filter((one) => isMisanswered(one, facts)).map(nameOf),
    ...misrouted(facts),
  }
}

/** Number of the event in a body. */
export function numberIn(body: string): number {
  return Number(/"n":(\d+)/.exec(body)?.[1] ?? -1)
}

function isMisanswered({ n, id, deliveries }: Published, { logged, receivers }: Facts): boolean {
  const [event] = logged.get(n) ?? []
  return event !== undefined && (event.id !== id || (receivers.get(id)?.size ?? 0) !== deliveries)
}

function misrouted(facts: Facts): Pick<PublishedVerdict, 'misrouted' | 'disagreed'> {
  const publishedOf = new Map(facts.published.map((one) => [one.n, one]))
  const found = { misrouted: [] as string[], disagreed: [] as string[] }
  for (const event of facts.log.events) {
    const got = facts.receivers.get(event.id) ?? new Set<string>()
    const published = publishedOf.get(numberIn(event.body))
    for (const endpoint of facts.endpoints) {
      const { name, toggled } = endpoint
      const due = dueAt(endpoint, event, published, facts.pauses.get(name))
      if (due === undefined || due === got.has(name)) continue
      const sort = toggled && isSubscribed(endpoint, event) ? 'disagreed' : 'misrouted'
      found[sort].push(`${name} ${due ? 'misses' : 'has'} ${event.id}${timesOf(published)}`)
    }
  }
  return found
}

/** Whether an endpoint should have an event; undefined if both are right. */
function dueAt(
  endpoint: FleetEndpoint,
  event: LoggedEvent,
  published: Published | undefined,
  pauses: readonly Pause[] | undefined,
): boolean | undefined {
  if (!isSubscribed(endpoint, event)) return false
  return endpoint.toggled ? wasEnabled(pauses, published) : true
}

function timesOf(published: Published | undefined): string {
  if (!published) return ''
  const [from, to] = [published.begunAt, published.answeredAt].map((ms) => (ms / 1000).toFixed(3))
  return ` of ${from}-${to} s`
}

function isSubscribed(endpoint: FleetEndpoint, { organization, type }: LoggedEvent): boolean {
  return endpoint.organization === organization && endpoint.types.includes(type)
}

/** Undefined if the endpoint was being changed meanwhile, or the time of acceptance is unknown. */
function wasEnabled(pauses: readonly Pause[] = [], published: Published | undefined): boolean | undefined {
  if (!published) return undefined
  const { begunAt, answeredAt } = published
  if (pauses.some(({ from, to }) => begunAt > from && answeredAt < to)) return false
  return pauses.some(({ asked, over }) => begunAt < over && answeredAt > asked) ? undefined : true
}

function nameOf({ n, organization }: Published): string {
  return `event ${n} of ${organization}`
}
