/** The metrics that are read when Prometheus scrapes, as one table for each command. `metrics.ts` has the counters and histograms. */

import { X509Certificate } from 'node:crypto'
import type { GaugeRegistry, GaugeRow } from '../lib/metrics.ts'
import { registerIndexGauges } from '../server/delivery-index/delivery-index.ts'
import type { CertificateSource } from '../server/http/server.ts'
import { registerStreamGauges } from '../server/stream/event-streams.ts'
import { failingEndpoints, lateSeconds } from '../webhooks/delivery/pending-counts.ts'
import type { EndpointDirectory } from '../webhooks/endpoints/directory.ts'
import type { RunningApi } from './api.ts'
import type { Config } from './config.ts'
import type { RunningController } from './start-controller.ts'

/** Registered first, since a process that waits for the API server is not ready either. @param problems those of `/readyz` */
export function registerReadiness({ gauge }: GaugeRegistry, problems: () => readonly string[]): void {
  gauge('davit_ready', 'Whether the process is ready, as /readyz reports: 0 or 1.', () =>
    Number(problems().length === 0),
  )
}

function registerLease(
  { gauge }: GaugeRegistry,
  lease: { isHeld: () => boolean; ageMs: () => number },
): void {
  gauge('davit_lease_held', 'Whether this replica renews its Lease in time: 0 or 1.', () =>
    Number(lease.isHeld()),
  )
  gauge('davit_lease_age_seconds', 'Time since this replica renewed its Lease.', () => lease.ageMs() / 1000)
}

/** @param limits by the name of their metric, with the metric that they limit */
function registerLimits(
  { gauge }: GaugeRegistry,
  limits: Readonly<Record<string, [metric: string, value: number]>>,
): void {
  for (const [name, [metric, value]] of Object.entries(limits))
    gauge(name, `Configured limit of ${metric}.`, () => value)
}

/** Has no value without a certificate. */
export function registerCertificate(
  { gaugeRows }: GaugeRegistry,
  certificate: CertificateSource | undefined,
): void {
  gaugeRows(
    'davit_certificate_expiry_timestamp_seconds',
    'Expiry time of the REST API certificate, in seconds since 1970.',
    [],
    () => {
      if (!certificate) return []
      const { validToDate } = new X509Certificate(certificate.current().cert)
      return [{ labels: [], value: validToDate.getTime() / 1000 }]
    },
  )
}

type ObjectWithConditions = {
  metadata: { deletionTimestamp?: string | undefined }
  status?: { conditions?: { type: string; status: string; reason: string }[] | undefined } | undefined
}

/** An endpoint that is being deleted counts as disabled. */
function endpointsByState(directory: Pick<EndpointDirectory, 'all'>): Record<string, number> {
  const found = { enabled: 0, disabled: 0, disabled_automatically: 0 }
  for (const { enabled, endpoint } of directory.all()) {
    const isAutomatic = endpoint.status?.disabledReason === 'ConsecutiveFailures'
    if (enabled) found.enabled += 1
    else if (isAutomatic) found.disabled_automatically += 1
    else found.disabled += 1
  }
  return found
}

/** One row for each kind and reason, and one with the value 0 for a kind whose objects are all ready. */
export function countNotReady(objects: Readonly<Record<string, Iterable<ObjectWithConditions>>>): GaugeRow[] {
  return Object.entries(objects).flatMap(([kind, all]) => {
    const reasons = new Map<string, number>()
    for (const { metadata, status } of all) {
      const ready = status?.conditions?.find(({ type }) => type === 'Ready')
      if (ready?.status === 'True' || metadata.deletionTimestamp !== undefined) continue
      const reason = ready?.reason ?? 'Unseen'
      reasons.set(reason, (reasons.get(reason) ?? 0) + 1)
    }
    if (reasons.size === 0) return [{ labels: [kind, ''], value: 0 }]
    return [...reasons].map(([reason, value]) => ({ labels: [kind, reason], value }))
  })
}

export function registerControllerGauges(
  registry: GaugeRegistry,
  running: RunningController,
  config: Pick<Config, 'intake' | 'retention' | 'limits'>,
): void {
  const { gauge } = registry
  const { replica } = running
  gauge(
    'davit_shards_owned',
    'Number of the 256 shards that this replica owns.',
    () => replica.ownedShardCount,
  )
  registerLease(registry, { isHeld: () => replica.mayAct, ageMs: () => replica.leaseAgeMs })
  registerDeliveries(registry, running)
  registerEndpoints(registry, running)
  registerLog(registry, running)
  registerLoops(registry, running)
  registerLimits(registry, {
    davit_deliveries_pending_limit: ['davit_deliveries_pending', config.intake.pending.all],
    davit_finished_limit_bytes: ['davit_finished_bytes', config.retention.maxFinishedBytes],
    davit_open_limit_bytes: ['davit_open_bytes', config.intake.openBytes.all],
    davit_written_limit_bytes: ['davit_written_bytes', config.intake.writtenBytes.all],
    davit_log_limit_bytes: ['davit_log_bytes', config.retention.maxLogBytes],
    davit_attempts_in_flight_limit: ['davit_attempts_in_flight', config.limits.inFlight],
  })
}

const WRITTEN_BYTES =
  'Approximate number of bytes that events and deliveries of all processes added to etcd in the last ten minutes.'
const OPEN_BYTES = 'Bytes of payloads with unfinished deliveries, including held deliveries.'

function registerDeliveries({ gauge }: GaugeRegistry, { webhooks }: RunningController): void {
  const { engine, written, book, organizations } = webhooks
  const clock = () => engine.ctx.clock
  gauge(
    'davit_deliveries_late_seconds',
    'Time since the most overdue delivery was due, by what it waits for.',
    () => lateSeconds(engine.queues.ours(), clock().now()),
    'waits_for',
  )
  gauge(
    'davit_events_oldest_waiting_seconds',
    'Age of the oldest WebhookEvent that has not been accepted; 0 if there is none.',
    () => {
      const now = clock().now()
      const oldest = book.oldestWaiting((namespace) => organizations.get(namespace) !== undefined)
      return Math.max(0, now - (oldest ?? now)) / 1000
    },
  )
  gauge(
    'davit_deliveries_pending',
    'Unfinished deliveries, except those that are held.',
    () => engine.counters.all.pending,
  )
  gauge(
    'davit_deliveries_held',
    'Deliveries to disabled endpoints. They continue when the endpoint is enabled.',
    () => engine.counters.all.held,
  )
  gauge('davit_written_bytes', WRITTEN_BYTES, () => written.total)
  gauge('davit_open_bytes', OPEN_BYTES, () => engine.counters.bodies.total)
  gauge(
    'davit_payload_bytes',
    'Bytes of payloads that are kept in memory for sending.',
    () => engine.ctx.payloads.bytes,
  )
  gauge('davit_attempts_in_flight', 'Delivery attempts in progress.', () => engine.stats().inFlight)
  gauge('davit_endpoints_with_backlog', 'Endpoints with unfinished deliveries.', () => engine.stats().lanes)
}

function registerEndpoints({ gauge, gaugeRows }: GaugeRegistry, { webhooks }: RunningController): void {
  const { engine, directory } = webhooks
  const failing = () => failingEndpoints(engine.queues.ours(), engine.ctx.clock.now())
  gauge('davit_endpoints', 'Endpoints, by state.', () => endpointsByState(directory), 'state')
  gauge(
    'davit_endpoints_failing',
    'Enabled endpoints of this replica whose last attempt failed.',
    () => failing().length,
  )
  gaugeRows(
    'davit_endpoint_failing_seconds',
    'Time since the first failed attempt after the last success of an endpoint. Limited to the 100 endpoints that have failed the longest.',
    ['organization', 'endpoint_name', 'result'],
    () =>
      failing().map(({ namespace, name, class: how, seconds }) => ({
        labels: [namespace, name, how],
        value: seconds,
      })),
  )
  gaugeRows(
    'davit_endpoint_failed_attempts',
    'Attempts since the last success of an endpoint. Limited to the endpoints of davit_endpoint_failing_seconds.',
    ['organization', 'endpoint_name'],
    () => failing().map(({ namespace, name, attempts }) => ({ labels: [namespace, name], value: attempts })),
  )
}

function registerLog({ gauge, total }: GaugeRegistry, { webhooks }: RunningController): void {
  const { engine, outcomes, eventLog, retention } = webhooks
  gauge(
    'davit_log_open_segments',
    'Delivery log segments with open deliveries.',
    () => engine.stats().openSegments,
  )
  gauge('davit_outcomes_waiting', 'Outcomes that have not been stored yet.', () => outcomes.waiting())
  gauge(
    'davit_log_oldest_write_seconds',
    'Age of the oldest write that waits for the delivery log; 0 if there is none.',
    () => ({ delivery: eventLog.oldestMs() / 1000, outcome: outcomes.oldestMs() / 1000 }),
    'kind',
  )
  gauge(
    'davit_deliveries_finished',
    'Finished deliveries that are stored as objects.',
    () => retention.stats().finished,
  )
  gauge(
    'davit_finished_bytes',
    'Approximate size of the objects of finished deliveries.',
    () => retention.stats().finishedBytes,
  )
  gauge('davit_log_bytes', 'Approximate size of the delivery log.', () => retention.stats().logBytes)
  gauge(
    'davit_log_segments',
    'Delivery log segments, by kind.',
    () => {
      const { logSegments, outcomeSegments } = retention.stats()
      return { delivery: logSegments, outcome: outcomeSegments }
    },
    'kind',
  )
  gauge(
    'davit_log_oldest_segment_seconds',
    'Age of the oldest delivery log segment.',
    () => retention.stats().oldestSegmentAgeMs / 1000,
  )
  total(
    'davit_retention_deleted_total',
    'Objects that retention has deleted since the start.',
    () => retention.stats().deleted,
  )
}

function registerLoops(registry: GaugeRegistry, { webhooks, leaderTasks }: RunningController): void {
  const { gauge, gaugeRows } = registry
  const { endpointLoop, eventLoop } = webhooks
  const credentials = () => leaderTasks.running?.credentials
  const boxes = () => leaderTasks.running?.boxes
  gauge(
    'davit_queue_depth',
    'Objects that wait for a reconciliation.',
    () => ({
      'webhook-endpoint': endpointLoop.depth,
      'webhook-event': eventLoop.depth,
      'secrets-settings': credentials()?.settingsLoop.depth ?? 0,
      'registry-credential': credentials()?.credentialLoop.depth ?? 0,
      'box-template': boxes()?.templateLoop.depth ?? 0,
    }),
    'controller',
  )
  gaugeRows(
    'davit_objects_not_ready',
    'Objects whose Ready condition is not True, by kind and reason.',
    ['kind', 'reason'],
    () =>
      countNotReady({
        WebhookEndpoint: [...webhooks.directory.all()].map(({ endpoint }) => endpoint),
        RegistryCredential: credentials()?.credentials.all() ?? [],
        SecretsSettings: credentials()?.settings.all() ?? [],
        BoxTemplate: boxes()?.templates.all() ?? [],
      }),
  )
  gauge(
    'davit_orphaned_parameters',
    'Recorded parameters that could not be removed.',
    () => credentials()?.failedDeletions.size ?? 0,
  )
  gauge('davit_bakes_in_progress', 'Bakes in progress.', () => boxes()?.slots.taken ?? 0)
  gauge('davit_bakes_waiting', 'Templates that wait for a bake slot.', () => boxes()?.slots.waiting ?? 0)
}

export function registerApiGauges(
  registry: GaugeRegistry,
  api: RunningApi,
  config: Pick<Config, 'intake' | 'api'>,
): void {
  const { gauge } = registry
  registerLease(registry, {
    isHeld: () => api.replicaStats().isWaitedFor,
    ageMs: () => api.replicaStats().leaseAgeMs,
  })
  registerLimits(registry, {
    davit_deliveries_pending_limit: ['davit_deliveries_pending', config.intake.pending.all],
    davit_open_limit_bytes: ['davit_open_bytes', config.intake.openBytes.all],
    davit_written_limit_bytes: ['davit_written_bytes', config.intake.writtenBytes.all],
    davit_index_deliveries_limit: ['davit_index_deliveries', config.api.maxDeliveries],
  })
  gauge('davit_written_bytes', WRITTEN_BYTES, () => api.publishStats().writtenBytes)
  gauge('davit_open_bytes', OPEN_BYTES, () => api.publishStats().openBytes)
  gauge(
    'davit_log_oldest_write_seconds',
    'Age of the oldest write that waits for the delivery log; 0 if there is none.',
    () => ({ delivery: api.publishStats().oldestMs / 1000 }),
    'kind',
  )
  gauge('davit_http_requests_in_flight', 'REST API requests in progress.', () => api.inFlight())
  gauge(
    'davit_changes_waiting',
    'Endpoint changes that wait until the other replicas have observed them.',
    () => api.replicaStats().waiting,
  )
  registerIndexGauges(registry, { stats: () => api.indexStats() })
  registerStreamGauges(registry, { stats: () => api.streamStats() })
}
