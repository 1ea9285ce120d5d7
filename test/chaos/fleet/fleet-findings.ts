/** What a run of a fleet has shown: figures, and what is wrong. */
import type { WebhookDelivery } from '../../../src/api/webhook-delivery.ts'
import { isFinal } from '../../../src/domain/delivery.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { violations } from '../../support/verdict.ts'
import type { Ledger } from '../facade/ledger.ts'
import type { SeenReception } from '../receivers.ts'
import { readDeliveries, readEvents, readLog, type StoredLog } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import type { FaultRecord } from './fault-work.ts'
import type { Fleet } from './fleet.ts'
import { type FleetEvidence, type FleetVerdict, fleetViolations, judgeFleet } from './fleet-verdict.ts'
import { type Gap, gapsOf } from './gaps.ts'
import { leftLeases } from './left-leases.ts'
import type { FleetPublisher } from './publishers.ts'
import type { Stall } from './stall-watch.ts'

export type Gathered = {
  fleet: Fleet
  publishers: readonly FleetPublisher[]
  receptions: readonly SeenReception[]
  faults: readonly FaultRecord[]
  pauses: ReadonlyMap<string, readonly Pause[]>
  ledger: Ledger
  stalls: readonly Stall[]
  waitScale: number
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
  const { receptions, stalls, waitScale } = gathered
  const { endpoints } = fleet
  const evidence = { log, receptions, endpoints, faults, exhausted, published, pauses, stalls, waitScale }
  const verdict = judgeFleet(evidence)
  const leases = await leftLeases(fleet)
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
    wrong: [
      ...gathered.wrong,
      ...fleet.members.flatMap(({ wrong }) => wrong),
      ...ledger.wrong,
      ...violations(verdict),
      ...fleetViolations(verdict, { latestMs: MAX_LATE_MS, facadesAgree: gathered.facadesAgree }),
      ...objectsOf(evidence, log, objects),
      ...(await notesOf(gathered, organizations)),
      ...leases.map(({ metadata }) => `the Lease ${metadata.name} is left over`),
    ],
  }
}

function exhaustedAmong(objects: readonly WebhookDelivery[]): Set<string> {
  const keys = objects
    .filter(({ status }) => status?.state === 'exhausted' && status.attemptCount === MAX_ATTEMPTS)
    .map(({ spec }) => `${spec.endpoint} ${spec.deliveryId}`)
  return new Set(keys)
}

/** Every delivery of an endpoint that shows all has one object, and what objects say is what receivers saw. */
function objectsOf(
  { receptions, endpoints }: FleetEvidence,
  log: StoredLog,
  objects: readonly WebhookDelivery[],
): string[] {
  const shown = new Map<string, number>()
  for (const { spec } of objects) {
    const key = `${spec.endpoint} ${spec.deliveryId}`
    shown.set(key, (shown.get(key) ?? 0) + 1)
  }
  const taken = new Set(
    receptions.filter(({ answer }) => answer === 'ok').map(({ endpoint, id }) => `${endpoint} ${id}`),
  )
  const showing = new Set(
    endpoints.filter(({ deliveryLog }) => deliveryLog === 'Objects').map(({ name }) => name),
  )
  const hidden = log.deliveries.filter(
    ({ endpoint, id }) => showing.has(endpoint) && !shown.has(`${endpoint} ${id}`),
  )
  const strange = objects.filter(({ spec, status }) => {
    const wasTaken = taken.has(`${spec.endpoint} ${spec.deliveryId}`)
    return status?.state !== (wasTaken ? 'succeeded' : 'exhausted')
  })
  const found = {
    'deliveries have no object': hidden.map(({ endpoint, id }) => `${endpoint} ${id}`),
    'deliveries have several objects': [...shown].filter(([, count]) => count > 1).map(([key]) => key),
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
