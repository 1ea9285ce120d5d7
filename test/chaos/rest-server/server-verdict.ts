/** Compares what clients were promised with what receivers got and what is stored. */
import type { Accepted } from './ledger.ts'

/** One request at a receiver, in the order of arrival. */
export type Received = { endpoint: string; id: string; answer: 'ok' | 'failed'; body: string }

export type ServerEvidence = {
  accepted: readonly Accepted[]
  /** Events that may or may not have been accepted. */
  unknown: ReadonlySet<number>
  received: readonly Received[]
  /** Names of the endpoints that get an event of a type. */
  subscribersOf: (type: string) => readonly string[]
  orderedEndpoint: string
  /** Delivery ids of each endpoint, by its name, as the REST server lists them. */
  logged: ReadonlyMap<string, readonly string[]>
  stored: {
    /** Endpoints that clients created; `description` is their idempotency key. */
    endpoints: readonly { id: string; description: string }[]
    /** The signing secrets of an endpoint, by its id. */
    secrets: ReadonlyMap<string, readonly string[]>
  }
}

export type ServerVerdict = {
  /** Accepted, but not received or not stored. */
  lost: string[]
  /** Created twice for one request. */
  duplicates: string[]
  /** Different bodies of one event. */
  changed: string[]
  outOfOrder: string[]
  /** Receptions after a successful one with the same id: at least once is not at most once. */
  again: number
}

type First = { index: number; ok: boolean; event: number | undefined }

export function judgeServers(evidence: ServerEvidence): ServerVerdict {
  const firsts = firstsOf(evidence.received)
  const promised = promisedOf(evidence)
  return {
    lost: [...lostDeliveries(promised, firsts), ...notLogged(promised, evidence), ...lostChanges(evidence)],
    duplicates: [
      ...unpromised(promised, firsts, evidence.unknown),
      ...loggedTwice(evidence),
      ...madeTwice(evidence),
    ],
    changed: changedBodies(evidence.received),
    outOfOrder: outOfOrder(evidence, firsts),
    again: receivedAgain(evidence.received),
  }
}

/** `<endpoint> <id>` of all promised deliveries. */
function promisedOf({ accepted, subscribersOf }: ServerEvidence): Set<string> {
  return new Set(
    accepted.flatMap(({ operation, endpoint = '', type = '', id }) => {
      if (operation === 'publish') return subscribersOf(type).map((name) => keyOf(name, id))
      return operation === 'ping' || operation === 'redeliver' ? [keyOf(endpoint, id)] : []
    }),
  )
}

function firstsOf(received: readonly Received[]): Map<string, First> {
  const firsts = new Map<string, First>()
  for (const [index, { endpoint, id, answer, body }] of received.entries()) {
    const key = keyOf(endpoint, id)
    const first = firsts.get(key) ?? { index, ok: false, event: eventIn(body) }
    first.ok ||= answer === 'ok'
    firsts.set(key, first)
  }
  return firsts
}

function lostDeliveries(promised: ReadonlySet<string>, firsts: ReadonlyMap<string, First>): string[] {
  return [...promised].filter((key) => !firsts.get(key)?.ok).map((key) => `${key} was not received`)
}

function notLogged(promised: ReadonlySet<string>, { logged }: ServerEvidence): string[] {
  const known = new Set([...logged].flatMap(([endpoint, ids]) => ids.map((id) => keyOf(endpoint, id))))
  return [...promised].filter((key) => !known.has(key)).map((key) => `${key} is not in the log`)
}

/** A rotated secret that was missing in the answer may have ended since: no client can miss it. */
function lostChanges({ accepted, stored }: ServerEvidence): string[] {
  const ids = new Set(stored.endpoints.map(({ id }) => id))
  const gone = accepted.filter(({ operation, id }) => operation === 'create' && !ids.has(id))
  const keyless = accepted.filter(
    ({ id, secret }) => secret !== undefined && !stored.secrets.get(id)?.includes(secret),
  )
  return [
    ...gone.map(({ id }) => `${id} is not there`),
    ...keyless.map(({ operation, id }) => `a secret that a ${operation} of ${id} has shown is not there`),
  ]
}

/** Receptions that no answer promised: a second effect of a request, unless its answer is unknown. */
function unpromised(
  promised: ReadonlySet<string>,
  firsts: ReadonlyMap<string, First>,
  unknown: ReadonlySet<number>,
): string[] {
  const idOfUnknown = new Map<number, string>()
  return [...firsts].flatMap(([key, { event }]) => {
    if (promised.has(key)) return []
    if (event === undefined || !unknown.has(event)) return [`${key} came, and nobody was told of it`]
    const [, id = ''] = key.split(' ')
    const other = idOfUnknown.get(event) ?? id
    idOfUnknown.set(event, other)
    return other === id ? [] : [`event ${event} came as ${other} and as ${id}`]
  })
}

function loggedTwice({ logged }: ServerEvidence): string[] {
  return [...logged].flatMap(([endpoint, ids]) => {
    const seen = new Set<string>()
    const twice = ids.filter((id) => seen.size === seen.add(id).size)
    return twice.map((id) => `${keyOf(endpoint, id)} is listed twice`)
  })
}

function madeTwice({ accepted, stored }: ServerEvidence): string[] {
  const answered = new Set(accepted.flatMap(({ operation, id }) => (operation === 'create' ? [id] : [])))
  const extra = stored.endpoints.filter(({ id }) => !answered.has(id))
  const rolls = rollsOf(accepted)
  const rolled = [...stored.secrets].filter(([id, { length }]) => length > (rolls.get(id) ?? 0) + 1)
  return [
    ...extra.map(({ id, description }) => `${id} is there under ${description}, and nobody was told of it`),
    ...rolled.map(([id, { length }]) => `${id} has ${length} secrets`),
  ]
}

function rollsOf(accepted: readonly Accepted[]): Map<string, number> {
  const rolls = new Map<string, number>()
  for (const { operation, id } of accepted) if (operation === 'roll') rolls.set(id, (rolls.get(id) ?? 0) + 1)
  return rolls
}

/** A redelivery has the same bytes as well. */
function changedBodies(received: readonly Received[]): string[] {
  const bodies = new Map<number, string>()
  return received.flatMap(({ body }) => {
    const event = eventIn(body)
    if (event === undefined) return []
    const known = bodies.get(event) ?? body
    bodies.set(event, known)
    return known === body ? [] : [`event ${event} came with two bodies`]
  })
}

/** A client publishes an event after the previous one was accepted, so it must follow in the log. */
function outOfOrder(evidence: ServerEvidence, firsts: ReadonlyMap<string, First>): string[] {
  const { accepted, subscribersOf, orderedEndpoint } = evidence
  const latest = new Map<number, number>()
  return accepted.flatMap(({ operation, type = '', client, id, event }) => {
    if (operation !== 'publish' || !subscribersOf(type).includes(orderedEndpoint)) return []
    const index = firsts.get(keyOf(orderedEndpoint, id))?.index ?? Number.POSITIVE_INFINITY
    const before = latest.get(client) ?? -1
    latest.set(client, Math.max(before, index))
    return index < before ? [`event ${event} came before the one before it`] : []
  })
}

function receivedAgain(received: readonly Received[]): number {
  const ok = new Set<string>()
  let again = 0
  for (const { endpoint, id, answer } of received) {
    const key = keyOf(endpoint, id)
    if (ok.has(key)) again += 1
    if (answer === 'ok') ok.add(key)
  }
  return again
}

/** Number of the event in a body; undefined for a ping. */
function eventIn(body: string): number | undefined {
  const { data } = JSON.parse(body) as { data: { n?: number } }
  return data.n
}

function keyOf(endpoint: string, id: string): string {
  return `${endpoint} ${id}`
}
