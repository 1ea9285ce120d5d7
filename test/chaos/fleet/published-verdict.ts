/** Compares what publishers were answered with what is in the log. */
import type { LoggedEvent } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import type { FleetEndpoint } from './endpoints.ts'
import type { FleetEvidence } from './fleet-verdict.ts'
import type { Published } from './publishers.ts'

export type PublishedVerdict = {
  missing: string[]
  /** One number, several events. */
  doubled: string[]
  /** Under another id, or for another number of deliveries. */
  misanswered: string[]
  misrouted: string[]
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
  return {
    missing: published.filter(({ n }) => !logged.has(n)).map(nameOf),
    doubled: [...logged].filter(([, events]) => events.length > 1).map(([n]) => `event ${n}`),
    misanswered: published.filter((one) => isMisanswered(one, facts)).map(nameOf),
    misrouted: misrouted(facts),
  }
}

/** Of the event in a body. */
function numberIn(body: string): number {
  return Number(/"n":(\d+)/.exec(body)?.[1] ?? -1)
}

function isMisanswered({ n, id, deliveries }: Published, { logged, receivers }: Facts): boolean {
  const [event] = logged.get(n) ?? []
  return event !== undefined && (event.id !== id || (receivers.get(id)?.size ?? 0) !== deliveries)
}

function misrouted(facts: Facts): string[] {
  const publishedOf = new Map(facts.published.map((one) => [one.n, one]))
  const names = new Map(facts.endpoints.map((endpoint) => [endpoint.name, endpoint]))
  return facts.log.events.flatMap((event) => {
    const got = facts.receivers.get(event.id) ?? new Set()
    const published = publishedOf.get(numberIn(event.body))
    const strangers = [...got].filter((name) => !isSubscribed(names.get(name), event))
    const others = facts.endpoints.filter((endpoint) => {
      if (!isSubscribed(endpoint, event)) return false
      const isDue = endpoint.toggled ? wasEnabled(facts.pauses.get(endpoint.name), published) : true
      return isDue !== undefined && isDue !== got.has(endpoint.name)
    })
    return [...strangers, ...others.map(({ name }) => name)].map((name) => `${name} ${event.id}`)
  })
}

function isSubscribed(endpoint: FleetEndpoint | undefined, { organization, type }: LoggedEvent): boolean {
  return endpoint?.organization === organization && endpoint.types.includes(type)
}

/** Undefined where it was being changed meanwhile, or nobody knows when the event was accepted. */
function wasEnabled(pauses: readonly Pause[] = [], published: Published | undefined): boolean | undefined {
  if (!published) return undefined
  const { begunAt, answeredAt } = published
  if (pauses.some(({ from, to }) => begunAt > from && answeredAt < to)) return false
  return pauses.some(({ asked, over }) => begunAt < over && answeredAt > asked) ? undefined : true
}

function nameOf({ n, organization }: Published): string {
  return `event ${n} of ${organization}`
}
