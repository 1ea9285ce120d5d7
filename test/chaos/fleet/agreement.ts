/**
 * Whether the three places that tell what became of a delivery agree: its object, the records of the log, and every REST server.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { isDeepStrictEqual } from 'node:util'
import { Agent, request } from 'undici'
import { z } from 'zod'
import { formatPosition } from '../../../src/apis/delivery-segment.ts'
import { ENDPOINT_PREFIX } from '../../../src/apis/ids.ts'
import { isShardRecord } from '../../../src/apis/outcome-segment.ts'
import type { WebhookDelivery } from '../../../src/apis/webhook-delivery.ts'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { shardOf } from '../../../src/ha/assignment.ts'
import { deliveryWithAttempts } from '../../../src/server/delivery-resource.ts'
import { ShardClaims } from '../../../src/webhooks/log/fencing.ts'
import { attemptsOf, fold, type LogState, NO_RECORDS } from '../../../src/webhooks/log/fold.ts'
import type { LoggedOutcomes } from '../../../src/webhooks/log/store.ts'
import { listAll } from '../../support/list-all.ts'
import { readDeliveries } from '../stored.ts'
import type { Fleet } from './fleet.ts'

/** How the object of a delivery that ended in the log must say that it ended. */
const STATES = { sent: 'succeeded', exhausted: 'exhausted', canceled: 'canceled' } as const

/**
 * Compares objects with what the records of the log say of them. Records of a controller that had lost the shard are void.
 * @param objects in their last state @param outcomes all that there ever were, in any order
 * @returns what disagrees, in words
 */
export function againstLog(
  objects: readonly WebhookDelivery[],
  outcomes: readonly LoggedOutcomes[],
): string[] {
  const states = logStates(objects, outcomes)
  return objects.flatMap(({ metadata, spec, status, isUnwritten }) => {
    // Its process died before it said more than that it succeeded.
    if (isUnwritten && states.get(spec.position)?.end === 'sent') return []
    const state = states.get(spec.position) ?? NO_RECORDS
    const logged = attemptsOf(state).map(({ at }) => at)
    const listed = (status?.attempts ?? []).map(({ at }) => at)
    // The object goes on alone once it has the state.
    const isWhole = state.end === 'none' || logged.length === listed.length
    const agrees = isWhole && logged.every((at) => listed.includes(at))
    const isEnd = state.end === 'none' || STATES[state.end] === status?.state
    if (agrees && isEnd) return []
    const inLog = `${state.end} with attempts at ${logged.join(' ') || 'no time'}`
    return [
      `${metadata.name} at ${spec.position} is ${status?.state} with attempts at ${listed.join(' ') || 'no time'}, in the log ${inLog}`,
    ]
  })
}

/** By position. */
function logStates(
  objects: readonly WebhookDelivery[],
  outcomes: readonly LoggedOutcomes[],
): Map<string, LogState> {
  const shards = new Map(objects.map(({ spec }) => [spec.position, shardOf(spec.endpointUid)]))
  const claims = claimsIn(outcomes)
  const states = new Map<string, LogState>()
  for (const { version, writer, records } of outcomes) {
    for (const record of records) {
      if (isShardRecord(record)) continue
      const position = formatPosition(record.position)
      const shard = shards.get(position)
      if (shard === undefined || claims.isFenced(shard, version, writer)) continue
      states.set(
        position,
        fold(states.get(position) ?? NO_RECORDS, { record, version }, (attempt) => attempt),
      )
    }
  }
  return states
}

function claimsIn(outcomes: readonly LoggedOutcomes[]): ShardClaims {
  const claims = new ShardClaims(Number.POSITIVE_INFINITY)
  const inOrder = outcomes.toSorted((a, b) => a.version - b.version)
  for (const segment of inOrder)
    for (const record of segment.records) if (isShardRecord(record)) claims.apply(record, segment, 0)
  return claims
}

const AGAIN_MS = 1000
/** A server that is a moment behind is asked again, also when the first answers took long. */
const LEAST_TRIES = 3
/** Reads at a time, of each organization at each server. */
const READS = 8

const answer = z.object({ delivery: deliveryWithAttempts })

/**
 * Asks every REST server for every delivery that has an object, and again for those that it tells otherwise, until all agree. An object
 * that changes meanwhile is not compared.
 * @param deadline by `performance.now()`
 * @returns how many answers were compared, and what still disagrees then, in words
 */
export async function untilServersAgree(
  fleet: Fleet,
  deadline: number,
): Promise<{ compared: number; wrong: string[] }> {
  const agent = new Agent({ connections: READS })
  try {
    const ask = async (names?: ReadonlySet<string>) => {
      const organizations = [...fleet.keys.keys()]
      return (await Promise.all(organizations.map((one) => answersOf(fleet, one, agent, names)))).flat()
    }
    const all = await ask()
    let wrong = all.filter(({ says }) => says !== '')
    for (
      let tries = 1;
      wrong.length > 0 && (tries < LEAST_TRIES || performance.now() < deadline);
      tries += 1
    ) {
      await sleep(AGAIN_MS)
      const names = new Set(wrong.map(({ object }) => object.metadata.name))
      wrong = (await ask(names)).filter(({ says }) => says !== '')
    }
    return { compared: all.length, wrong: wrong.map(({ says }) => says) }
  } finally {
    await agent.close()
  }
}

/** @param names of the objects to ask for; absent: all */
async function answersOf(
  { davit, servers, keys }: Fleet,
  organization: string,
  agent: Agent,
  names?: ReadonlySet<string>,
): Promise<{ object: WebhookDelivery; says: string }[]> {
  const endpoints = await listAll(davit.api, webhookEndpoints, { namespace: organization })
  const uids = new Set(endpoints.map(({ metadata }) => metadata.uid))
  const found = await readDeliveries(davit.api, organization)
  // Those of a deleted endpoint go soon, and REST servers do not know it.
  const objects = found.filter(
    ({ metadata, spec }) => uids.has(spec.endpointUid) && names?.has(metadata.name) !== false,
  )
  const asked = servers.flatMap(({ baseUrl }) => objects.map((object) => ({ baseUrl, object })))
  const headers = { authorization: keys.get(organization) ?? '' }
  const ask = async ({ baseUrl, object }: (typeof asked)[number]) => {
    const { endpoint, deliveryId } = object.spec
    const path = `/organizations/${organization}/webhooks/whe_${endpoint}/deliveries/${deliveryId}`
    const { statusCode, body } = await request(baseUrl + path, { dispatcher: agent, headers })
    return { object, says: differenceOf(object, statusCode, await body.json()) }
  }
  const answers: Awaited<ReturnType<typeof ask>>[] = []
  for (let from = 0; from < asked.length; from += READS)
    answers.push(...(await Promise.all(asked.slice(from, from + READS).map(ask))))
  // Retention goes on meanwhile.
  const after = await readDeliveries(davit.api, organization)
  const unchanged = new Set(after.map(({ metadata }) => metadata.resourceVersion))
  return answers.filter(({ object }) => unchanged.has(object.metadata.resourceVersion))
}

/** @returns in words; empty if they agree */
export function differenceOf(
  { metadata, spec, status }: WebhookDelivery,
  code: number,
  body: unknown,
): string {
  const { namespace, name } = metadata
  const parsed = answer.safeParse(body)
  if (code !== 200 || !parsed.success) return `${namespace}/${name} is answered with ${code}`
  const { delivery } = parsed.data
  const rest = [
    delivery.endpointId,
    delivery.deliveryId,
    delivery.status,
    delivery.attemptCount,
    delivery.nextAttemptAt,
    delivery.completedAt,
    delivery.attempts,
  ]
  const object = [
    ENDPOINT_PREFIX + spec.endpoint,
    spec.deliveryId,
    status?.state ?? 'pending',
    status?.attemptCount ?? 0,
    status?.nextAttemptAt,
    status?.completedAt,
    status?.attempts ?? [],
  ]
  if (isDeepStrictEqual(rest, object)) return ''
  return `${namespace}/${name} is ${JSON.stringify(object)}, by REST ${JSON.stringify(rest)}`
}
