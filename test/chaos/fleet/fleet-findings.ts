/** What a run of a fleet has shown: figures, and what is wrong. */
import type { WebhookDelivery } from '../../../src/api/webhook-delivery.ts'
import { isFinal } from '../../../src/domain/delivery.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { type AcceptedDelivery, keyOf, violations } from '../../support/verdict.ts'
import type { Ledger } from '../facade/ledger.ts'
import type { SeenReception } from '../receivers.ts'
import { readDeliveries, readEvents, readLog } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import type { Course } from './explained.ts'
import type { FaultRecord } from './fault-work.ts'
import type { Fleet } from './fleet.ts'
import { type FleetEvidence, type FleetVerdict, fleetViolations, judgeFleet } from './fleet-verdict.ts'
import { type Gap, gapsOf } from './gaps.ts'
import { leftLeases } from './left-leases.ts'
import type { FleetPublisher } from './publishers.ts'
import type { Load, Stall } from './stall-watch.ts'

export type Gathered = Course & {
  fleet: Fleet
  publishers: readonly FleetPublisher[]
  receptions: readonly SeenReception[]
  pauses: ReadonlyMap<string, readonly Pause[]>
  ledger: Ledger
  stalls: readonly Stall[]
  loads: readonly Load[]
  waitScale: number
  leaseMs: number
  facadesAgree: boolean
  /** What was not as it has to be while it ran, in words. */
  wrong: readonly string[]
}

export type FleetFindings = {
  verdict: FleetVerdict
  gaps: Gap[]
  faults: readonly FaultRecord[]
  events: number
  notes: number
  /** Places in the log that repeat an event, and are delivered to nobody. */
  repeats: number
  disablings: number
  retried: number
  failures: ReadonlyMap<string, number>
  /** Finished delivery objects, and those that were attempted to their end. */
  objects: number
  exhausted: number
  leases: number
  /** Deliveries that have to have an object, and have none. */
  unshown: AcceptedDelivery[]
  wrong: string[]
}

const MAX_ATTEMPTS = 8
/** What had begun when the disabling was acknowledged may come so much later. */
const MAX_LATE_MS = 2000

/** When every process has ended. */
export async function fleetFindingsOf(gathered: Gathered): Promise<FleetFindings> {
  const { fleet, publishers, faults, pauses, ledger } = gathered
  const { api } = fleet.davit
  const log = await readLog(api, OPERATOR_NAMESPACE)
  const organizations = [...fleet.keys.keys()]
  const objects = (await Promise.all(organizations.map((name) => readDeliveries(api, name)))).flat()
  const exhausted = exhaustedAmong(objects)
  const published = publishers.flatMap((one) => one.published)
  const { receptions, silences, stalls, loads, waitScale, leaseMs } = gathered
  const { endpoints, members } = fleet
  const lives = members.flatMap((member) => member.lives)
  const startedAt = new Map(lives.map(({ number, startedAt }) => [number, startedAt]))
  const times = { pauses, stalls, loads, waitScale, leaseMs, startedAt }
  const evidence = { log, receptions, endpoints, faults, silences, exhausted, published, ...times }
  const verdict = judgeFleet(evidence)
  const leases = await leftLeases(fleet)
  const unshown = unshownIn(evidence, objects)
  return {
    verdict,
    gaps: gapsOf(evidence),
    faults,
    events: log.events.length,
    notes: publishers.flatMap(({ notes }) => notes).length,
    repeats: log.repeats,
    disablings: [...pauses.values()].flat().length,
    retried: ledger.retried,
    failures: ledger.failures,
    objects: objects.length,
    exhausted: exhausted.size,
    leases: leases.length,
    unshown,
    wrong: [
      ...gathered.wrong,
      ...fleet.members.flatMap(({ wrong }) => wrong),
      ...ledger.wrong,
      ...violations(verdict),
      ...fleetViolations(verdict, { latestMs: MAX_LATE_MS, facadesAgree: gathered.facadesAgree }),
      ...objectsOf(evidence, unshown, objects),
      ...(await notesOf(gathered, organizations)),
      ...leases.map(({ metadata }) => `the Lease ${metadata.name} is left over`),
    ],
  }
}

function exhaustedAmong(objects: readonly WebhookDelivery[]): Set<string> {
  const keys = objects
    .filter(({ status }) => status?.state === 'exhausted' && status.attemptCount === MAX_ATTEMPTS)
    .map(keyOfObject)
  return new Set(keys)
}

/** Every delivery of an endpoint that shows all has an object. */
function unshownIn(
  { log, endpoints }: FleetEvidence,
  objects: readonly WebhookDelivery[],
): AcceptedDelivery[] {
  const shown = new Set(objects.map(keyOfObject))
  const showing = new Set(
    endpoints.filter(({ deliveryLog }) => deliveryLog === 'Objects').map(({ name }) => name),
  )
  return log.deliveries.filter((one) => showing.has(one.endpoint) && !shown.has(keyOf(one)))
}

function keyOfObject({ spec }: WebhookDelivery): string {
  return keyOf({ endpoint: spec.endpoint, id: spec.deliveryId })
}

/** There is one for each, and what objects say is what receivers saw. */
function objectsOf(
  { receptions }: FleetEvidence,
  unshown: readonly AcceptedDelivery[],
  objects: readonly WebhookDelivery[],
): string[] {
  const counts = Map.groupBy(objects, keyOfObject)
  const taken = new Set(receptions.filter(({ answer }) => answer === 'ok').map(keyOf))
  const strange = objects.filter(
    (one) => one.status?.state !== (taken.has(keyOfObject(one)) ? 'succeeded' : 'exhausted'),
  )
  const found = {
    'deliveries have no object': unshown.map(keyOf),
    'deliveries have several objects': [...counts].filter(([, { length }]) => length > 1).map(([key]) => key),
    'objects are not finished': objects
      .filter(({ status }) => !isFinal(status?.state))
      .map(({ metadata }) => metadata.name),
    'objects say something else than their receivers': strange.map(
      ({ spec, status }) =>
        `${spec.endpoint} ${spec.deliveryId} is ${status?.state} (${status?.reason ?? 'no reason'})`,
    ),
  }
  return Object.entries(found).flatMap(([what, which]) =>
    which.length === 0 ? [] : [`${which.length} ${what}: ${which.slice(0, 5).join(', ')}`],
  )
}

/** Every WebhookEvent is dispatched, and is in the log once. */
async function notesOf({ fleet, publishers }: Gathered, organizations: readonly string[]): Promise<string[]> {
  const { api } = fleet.davit
  const events = (await Promise.all(organizations.map((name) => readEvents(api, name)))).flat()
  const made = publishers.flatMap(({ notes }) => notes).length
  const undone = events.filter(({ status }) => status?.state !== 'dispatched')
  return [
    ...(events.length === made ? [] : [`${made - events.length} WebhookEvents are missing`]),
    ...undone
      .slice(0, 5)
      .map(
        ({ metadata, status }) => `WebhookEvent ${metadata.name} is ${status?.state ?? 'without a state'}`,
      ),
  ]
}
