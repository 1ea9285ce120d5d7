/** The results of a run: figures and violations. */
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { judge, type Verdict, violations } from '../support/verdict.ts'
import type { Death } from './chaos-run.ts'
import { NOTE_TYPE, type Publisher } from './publisher.ts'
import type { Receivers, SeenReception } from './receivers.ts'
import { ENDPOINTS, isPoisoned, type Setting } from './setting.ts'
import { type LoggedEvent, readDeliveries, readEvents, readLog, type StoredLog } from './stored.ts'
import { latestInPauses, type Toggler } from './toggler.ts'

export type Evidence = {
  setting: Setting
  receivers: Receivers
  publisher: Publisher
  toggler: Toggler
  deaths: readonly Death[]
  rested: boolean
}

export type Findings = {
  deaths: readonly Death[]
  verdict: Verdict
  /** Accepted events, and duplicate positions in the log. */
  events: number
  repeats: number
  /** Milliseconds from a repeated 2xx to the kill that explains it, and from a disabling to the last attempt. */
  unstoredForMs: number[]
  lateMs: number
  pauses: number
  /** Descriptions of violations. */
  wrong: string[]
}

const MAX_ATTEMPTS = 8
/** A process stops after outcomes could not be stored for this long; while the store answers, it takes much less. */
const MAX_UNSTORED_MS = 6000
/** A request on the wire when the disabling was acknowledged may be seen this much later. */
const MAX_LATE_MS = 250

export async function findingsOf(evidence: Evidence): Promise<Findings> {
  const { setting, receivers, publisher, toggler, deaths } = evidence
  const log = await readLog(setting.api, setting.namespace)
  const verdict = judge({
    accepted: log.deliveries,
    receptions: receivers.receptions,
    orderedEndpoints: new Set(ENDPOINTS.filter(({ ordered }) => ordered).map(({ name }) => name)),
    killed: new Set(deaths.map(({ run }) => run)),
    maxAttempts: MAX_ATTEMPTS,
  })
  const paused = receivers.receptions.filter(({ endpoint }) => endpoint === 'paused').map(({ at }) => at)
  const lateMs = latestInPauses(toggler.pauses, paused)
  const unstored = unstoredOf(verdict, receivers.receptions, deaths)
  const tooLong = unstored.filter(({ outage, ms }) => !outage && ms > MAX_UNSTORED_MS)
  return {
    deaths,
    verdict,
    events: log.events.length,
    repeats: log.repeats,
    unstoredForMs: unstored.map(({ ms }) => ms),
    lateMs,
    pauses: toggler.pauses.length,
    wrong: [
      ...(evidence.rested ? [] : ['something was still pending at the end']),
      ...violations(verdict),
      ...tooLong.map(({ ms }) => `an outcome was not stored for ${Math.round(ms)} ms`),
      ...(lateMs > MAX_LATE_MS ? [`an attempt began ${Math.round(lateMs)} ms after a disabling`] : []),
      ...missingFrom(log, publisher),
      ...bodiesOf(log, receivers.receptions),
      ...orderOfNotes(log.events),
      ...(await objectsOf(setting, log, failedIn(receivers.receptions, deaths))),
      ...(await statusesOf(setting, publisher)),
    ],
  }
}

function unstoredOf(verdict: Verdict, receptions: readonly SeenReception[], deaths: readonly Death[]) {
  return verdict.duplicates
    .filter(({ explained }) => explained)
    .map(({ endpoint, id, run }) => {
      const death = deaths.find((one) => one.run === run)
      const taken = receptions.find(
        (one) => one.run === run && one.endpoint === endpoint && one.id === id && one.answer === 'ok',
      )
      return { outage: death?.outage ?? false, ms: (death?.at ?? 0) - (taken?.answeredAt ?? 0) }
    })
}

/** An acknowledged event must be in the log, at its position or before it. */
function missingFrom(log: StoredLog, publisher: Publisher): string[] {
  const logged = new Set(log.events.map(({ id }) => id))
  const missing = publisher.acknowledged.filter(({ id }) => !logged.has(id))
  return missing.length === 0 ? [] : [`${missing.length} acknowledged events are not in the log`]
}

function bodiesOf(log: StoredLog, receptions: readonly SeenReception[]): string[] {
  const bodies = new Map(log.events.map(({ id, body }) => [id, body]))
  const changed = receptions.filter(({ id, body }) => bodies.has(id) && bodies.get(id) !== body)
  return changed.length === 0 ? [] : [`${changed.length} bodies differ from what was accepted`]
}

/** Events created with kubectl must be in the log in the order of their creation. */
function orderOfNotes(events: readonly LoggedEvent[]): string[] {
  const numbers = events
    .filter(({ type }) => type === NOTE_TYPE)
    .map(({ body }) => Number(/"note":(\d+)/.exec(body)?.[1]))
  const wrong = numbers.filter((n, index) => index > 0 && n <= (numbers[index - 1] ?? 0))
  return wrong.length === 0 ? [] : [`${wrong.length} WebhookEvents are out of order in the log`]
}

/** Deliveries of which more attempts failed than ended with a kill, `<endpoint> <id>`: some failure is known to have been stored. */
function failedIn(receptions: readonly SeenReception[], deaths: readonly Death[]): ReadonlySet<string> {
  const killed = new Set(deaths.map(({ run }) => run))
  const failed = Map.groupBy(
    receptions.filter(({ answer }) => answer === 'failed'),
    ({ endpoint, id }) => `${endpoint} ${id}`,
  )
  const isKnown = (attempts: readonly SeenReception[]) =>
    attempts.length > new Set(attempts.map(({ run }) => run).filter((run) => killed.has(run))).size
  return new Set([...failed].flatMap(([key, attempts]) => (isKnown(attempts) ? [key] : [])))
}

/** Every delivery that failed must have an object, and every object must have ended. */
async function objectsOf(setting: Setting, log: StoredLog, failed: ReadonlySet<string>): Promise<string[]> {
  const objects = await readDeliveries(setting.api, setting.organization)
  const promoted = new Set(objects.map(({ spec }) => `${spec.endpoint} ${spec.deliveryId}`))
  const bodies = new Map(log.events.map(({ id, body }) => [id, body]))
  const hidden = log.deliveries.filter(
    ({ endpoint, id }) => failed.has(`${endpoint} ${id}`) && !promoted.has(`${endpoint} ${id}`),
  )
  const unfinished = objects.filter(({ status }) => !isFinal(status?.state))
  const strange = objects.filter(({ spec, status }) => {
    const poisoned = isPoisoned(spec.endpoint, bodies.get(spec.deliveryId) ?? '')
    return isFinal(status?.state) && status?.state !== (poisoned ? 'exhausted' : 'succeeded')
  })
  return [
    ...(hidden.length === 0 ? [] : [`${hidden.length} deliveries that failed have no object`]),
    ...(unfinished.length === 0 ? [] : [`${unfinished.length} objects are not finished`]),
    ...strange
      .slice(0, 5)
      .map(
        ({ metadata, status }) => `${metadata.name} is ${status?.state} (${status?.reason ?? 'no reason'})`,
      ),
  ]
}

async function statusesOf(setting: Setting, publisher: Publisher): Promise<string[]> {
  const events = await readEvents(setting.api, setting.organization)
  const undone = events.filter(({ status }) => status?.state !== 'dispatched')
  return [
    ...(events.length === publisher.notes.length ? [] : ['WebhookEvents are missing']),
    ...(undone.length === 0
      ? []
      : [
          `${undone.length} WebhookEvents are not dispatched: ${undone[0]?.status?.state ?? 'without a state'}`,
        ]),
  ]
}
