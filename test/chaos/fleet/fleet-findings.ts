/** The results of a fleet run: figures and violations. */
import { type WebhookDelivery, webhookDelivery } from '../../../src/apis/webhook-delivery.ts'
import { webhookEvent } from '../../../src/apis/webhook-event.ts'
import { isFinal } from '../../../src/webhooks/delivery/plan.ts'
import { type AcceptedDelivery, keyOf, violations } from '../../support/verdict.ts'
import type { SeenReception } from '../receivers.ts'
import type { Ledger } from '../rest-server/ledger.ts'
import { logIn, type StoredLog } from '../stored.ts'
import type { Pause } from '../toggler.ts'
import { againstLog } from './agreement.ts'
import type { Archive } from './archive.ts'
import type { Course } from './explained.ts'
import type { FaultRecord } from './fault-work.ts'
import type { Fleet } from './fleet.ts'
import { type FleetEvidence, type FleetVerdict, judgeFleet, knownFailures } from './fleet-verdict.ts'
import { fleetViolations } from './fleet-violations.ts'
import { type Gap, gapsOf } from './gaps.ts'
import { leftLeases } from './left-leases.ts'
import { outcomesIn } from './log-lines.ts'
import { judgeNoted } from './noted-verdict.ts'
import type { Passing } from './passing.ts'
import type { FleetPublisher } from './publishers.ts'
import { goneEarly } from './retained.ts'
import type { Load, Stall } from './stall-watch.ts'
import { worded } from './worded.ts'

export type Gathered = Course & {
  fleet: Fleet
  publishers: readonly FleetPublisher[]
  receptions: readonly SeenReception[]
  pauses: ReadonlyMap<string, readonly Pause[]>
  passing: readonly Passing[]
  archive: Archive
  ledger: Ledger
  stalls: readonly Stall[]
  loads: readonly Load[]
  waitScale: number
  leaseMs: number
  /** Renewals of the Lease by each life of a controller. */
  renewals: ReadonlyMap<number, readonly number[]>
  /** When Leases were read. */
  looks: readonly number[]
  retentionMs: number
  /** The limit of the log, if it is low enough to be reached. */
  logBytes?: number
  serversAgree: boolean
  /** Descriptions of violations during the run. */
  wrong: readonly string[]
}

export type FleetFindings = {
  verdict: FleetVerdict
  gaps: Gap[]
  faults: readonly FaultRecord[]
  events: number
  notes: number
  /** Duplicate positions in the log, which are not delivered. */
  repeats: number
  disablings: number
  /** Of endpoints. */
  deletions: number
  /** Segments of the log, and deliveries, that were deleted during the run. */
  forgotten: number
  retried: number
  failures: ReadonlyMap<string, number>
  /** Finished delivery objects, and exhausted ones. */
  objects: number
  exhausted: number
  leases: number
  /** Deliveries that must have an object, but do not. */
  unshown: AcceptedDelivery[]
  wrong: string[]
}

const MAX_ATTEMPTS = 8
/** Requests on the wire when the disabling was acknowledged may be seen this much later. */
const MAX_LATE_MS = 250
/** For a deletion that a controller has not acknowledged: a replica that is cut off stops after this time. */
const MAX_UNSEEN_MS = 25_000

/** Called after every process has ended. */
export async function fleetFindingsOf(gathered: Gathered): Promise<FleetFindings> {
  const { fleet, publishers, faults, pauses, ledger, passing, archive } = gathered
  const aliases = aliasesOf(passing)
  const log = logOf(archive, aliases)
  const deleted = new Set(passing.flatMap((one) => one.deleted))
  const objects = objectsIn(archive, aliases).filter(({ spec }) => !deleted.has(spec.endpoint))
  const exhausted = exhaustedAmong(objects)
  const published = publishers.flatMap((one) => one.published)
  const { receptions, silences, stalls, loads, waitScale, leaseMs, renewals, looks } = gathered
  const { members } = fleet
  const endpoints = [...fleet.endpoints, ...passing.flatMap((one) => one.endpoints)]
  const lives = members.flatMap((member) => member.lives)
  const startedAt = new Map(lives.map(({ number, startedAt }) => [number, startedAt]))
  const unsure = new Set(passing.flatMap((one) => [...one.unsure]))
  const times = { pauses, deleted, unsure, stalls, loads, waitScale, leaseMs, startedAt, renewals, looks }
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
    disablings: fleet.endpoints.flatMap(({ name }) => pauses.get(name) ?? []).length,
    deletions: deleted.size,
    forgotten: [...archive.segments, ...archive.deliveries].filter(({ missedAt }) => missedAt !== undefined)
      .length,
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
      ...fleetViolations(verdict, {
        latestMs: MAX_LATE_MS,
        unseenMs: MAX_UNSEEN_MS,
        serversAgree: gathered.serversAgree,
        leaseMs,
      }),
      ...objectsOf(evidence, unshown, objects),
      ...worded({
        'objects say something else than the log': againstLog(objects, outcomesIn(archive.outcomes)),
      }),
      ...goneEarly({ ...gathered, deleted: new Set(deletedNames(passing)), startedAt }),
      ...notesOf(gathered, log, deleted),
      ...leases.map(({ metadata }) => `the Lease ${metadata.name} is left over`),
    ],
  }
}

/** Names in the cluster, and their counterparts at the receivers. */
export function aliasesOf(passing: readonly Passing[]): Map<string, string> {
  return new Map(passing.flatMap((one) => [...one.aliases]))
}

function deletedNames(passing: readonly Passing[]): string[] {
  const deleted = new Set(passing.flatMap((one) => one.deleted))
  return [...aliasesOf(passing)].flatMap(([name, alias]) => (deleted.has(alias) ? [name] : []))
}

/** Renames endpoints to their names at the receivers. */
function logOf({ segments }: Archive, aliases: ReadonlyMap<string, string>): StoredLog {
  const log = logIn(segments.map(({ raw }) => raw))
  const deliveries = log.deliveries.map(({ endpoint, id }) => ({
    endpoint: aliases.get(endpoint) ?? endpoint,
    id,
  }))
  return { ...log, deliveries }
}

/** The last known objects, with endpoints named as at the receivers. */
function objectsIn({ deliveries }: Archive, aliases: ReadonlyMap<string, string>): WebhookDelivery[] {
  return deliveries.map(({ raw }) => {
    const parsed = webhookDelivery.parse(raw)
    const { endpoint } = parsed.spec
    return { ...parsed, spec: { ...parsed.spec, endpoint: aliases.get(endpoint) ?? endpoint } }
  })
}

function exhaustedAmong(objects: readonly WebhookDelivery[]): Set<string> {
  const keys = objects
    .filter(({ status }) => status?.state === 'exhausted' && status.attemptCount === MAX_ATTEMPTS)
    .map(keyOfObject)
  return new Set(keys)
}

/** Every delivery that failed once must have an object. */
function unshownIn(evidence: FleetEvidence, objects: readonly WebhookDelivery[]): AcceptedDelivery[] {
  const { log, deleted } = evidence
  const stored = new Set(objects.map(keyOfObject))
  const failed = knownFailures(evidence)
  return log.deliveries.filter(
    (one) => failed.has(keyOf(one)) && !deleted.has(one.endpoint) && !stored.has(keyOf(one)),
  )
}

function keyOfObject({ spec }: WebhookDelivery): string {
  return keyOf({ endpoint: spec.endpoint, id: spec.deliveryId })
}

/** Objects must exist, and agree with what receivers saw. */
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
  return worded({
    'deliveries have no object': unshown.map(keyOf),
    'deliveries have several objects': [...counts].filter(([, { length }]) => length > 1).map(([key]) => key),
    'objects are not finished': objects
      .filter(({ status }) => !isFinal(status?.state))
      .map(({ metadata }) => metadata.name),
    'objects say something else than their receivers': strange.map(
      ({ spec, status }) =>
        `${spec.endpoint} ${spec.deliveryId} is ${status?.state} (${status?.reason ?? 'no reason'})`,
    ),
  })
}

/** Every WebhookEvent must be dispatched, and be in the log if required. */
function notesOf(
  { archive, publishers, receptions }: Gathered,
  { events, deliveries }: StoredLog,
  deleted: ReadonlySet<string>,
): string[] {
  const verdict = judgeNoted({
    notes: new Map(publishers.map(({ organization, notes }) => [organization, notes])),
    objects: archive.events.map(({ raw, endSeenAt }) => {
      const { metadata, status } = webhookEvent.parse(raw)
      return { name: metadata.name, state: status?.state, eventId: status?.eventId, endSeenAt }
    }),
    events,
    takenAt: lastTakenAt(
      deliveries.filter(({ endpoint }) => !deleted.has(endpoint)),
      receptions,
    ),
  })
  return worded({
    'WebhookEvents are missing': verdict.missing,
    'WebhookEvents are not dispatched': verdict.undone,
    'WebhookEvents are not in the log': verdict.unsent,
    'WebhookEvents have another id than the log says': verdict.misnamed,
    'WebhookEvents were dispatched before all had taken them': verdict.early,
    'WebhookEvents are not in the order of their creation': verdict.misplaced,
  })
}

/** By the id of an event, when the last of its endpoints received it successfully for the first time. */
function lastTakenAt(
  deliveries: readonly AcceptedDelivery[],
  receptions: readonly SeenReception[],
): Map<string, number> {
  const first = new Map<string, number>()
  for (const reception of receptions) {
    const { at, answer } = reception
    if (answer === 'ok') first.set(keyOf(reception), Math.min(at, first.get(keyOf(reception)) ?? at))
  }
  const last = new Map<string, number>()
  for (const delivery of deliveries) {
    const at = first.get(keyOf(delivery)) ?? Number.NEGATIVE_INFINITY
    last.set(delivery.id, Math.max(at, last.get(delivery.id) ?? at))
  }
  return last
}
