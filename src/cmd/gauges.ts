/** What is read when Prometheus scrapes the controller. */

import type { GaugeRegistry } from '../lib/metrics.ts'
import { failingEndpoints, lateSeconds } from '../webhooks/delivery/plane-figures.ts'
import type { Config } from './config.ts'
import type { RunningController } from './controller.ts'
import { countNotReady, endpointsByState } from './object-figures.ts'
import { registerLease, registerLimits } from './shared-gauges.ts'

export function registerControllerGauges(
  registry: GaugeRegistry,
  running: RunningController,
  config: Pick<Config, 'intake' | 'retention' | 'limits'>,
): void {
  const { replica } = running
  registry.gauge(
    'davit_shards_owned',
    'Shards of 256 that this replica works on.',
    () => replica.ownedShardCount,
  )
  registerLease(registry, { isHeld: () => replica.mayAct, ageMs: () => replica.leaseAgeMs })
  registerDeliveries(registry, running)
  registerEndpoints(registry, running)
  registerLog(registry, running)
  registerLoops(registry, running)
  registerLimits(registry, {
    deliveries_pending: config.intake.pending.all,
    deliveries_finished: config.retention.maxFinished,
    written_bytes: config.intake.writtenBytes.all,
    log_bytes: config.retention.maxLogBytes,
    attempts_in_flight: config.limits.inFlight,
  })
}

function registerDeliveries(registry: GaugeRegistry, { parts }: RunningController): void {
  const { engine, written, book, organizations } = parts
  const clock = () => engine.ctx.clock
  registry.gauge(
    'davit_deliveries_late_seconds',
    'For how long the delivery that is due longest has not been sent, by what it waits for.',
    () => lateSeconds(engine.queues.ours(), clock().now()),
    'waits_for',
  )
  registry.gauge(
    'davit_events_oldest_waiting_seconds',
    'Age of the oldest WebhookEvent that has not been accepted; 0 without one.',
    () => {
      const now = clock().now()
      const oldest = book.oldestWaiting((namespace) => organizations.get(namespace) !== undefined)
      return Math.max(0, now - (oldest ?? now)) / 1000
    },
  )
  registry.gauge(
    'davit_deliveries_pending',
    'Deliveries that have not come to their end, without those that are held.',
    () => engine.counters.all.pending,
  )
  registry.gauge(
    'davit_deliveries_held',
    'Deliveries of disabled endpoints, which go on when those are enabled.',
    () => engine.counters.all.held,
  )
  registry.gauge(
    'davit_written_bytes',
    'Bytes that events and deliveries have added to the store of the cluster in the last ten minutes, about.',
    () => written.total,
  )
  registry.gauge('davit_attempts_in_flight', 'Attempts under way.', () => engine.stats().inFlight)
  registry.gauge('davit_lanes', 'Endpoints with deliveries that have not ended.', () => engine.stats().lanes)
}

function registerEndpoints(registry: GaugeRegistry, { parts }: RunningController): void {
  const { engine, directory } = parts
  const failing = () => failingEndpoints(engine.queues.ours(), engine.ctx.clock.now())
  registry.gauge('davit_endpoints', 'Endpoints, by their state.', () => endpointsByState(directory), 'state')
  registry.gauge(
    'davit_endpoints_failing',
    'Enabled endpoints of this replica whose last attempt failed.',
    () => failing().length,
  )
  registry.gaugeRows(
    'davit_endpoint_failing_seconds',
    'For how long an endpoint has failed: since its first attempt that failed after the last success. At most the 100 that have failed for longest.',
    ['organization', 'endpoint_name', 'class'],
    () =>
      failing().map(({ namespace, name, class: how, seconds }) => ({
        labels: [namespace, name, how],
        value: seconds,
      })),
  )
  registry.gaugeRows(
    'davit_endpoint_failed_attempts',
    'Attempts of those endpoints since their last success.',
    ['organization', 'endpoint_name'],
    () => failing().map(({ namespace, name, attempts }) => ({ labels: [namespace, name], value: attempts })),
  )
}

function registerLog(registry: GaugeRegistry, { parts }: RunningController): void {
  const { engine, outcomes, eventLog, retention } = parts
  registry.gauge(
    'davit_log_open_segments',
    'Segments of the log with something open.',
    () => engine.stats().openSegments,
  )
  registry.gauge('davit_outcomes_waiting', 'Outcomes that wait to become durable.', () => outcomes.waiting())
  registry.gauge(
    'davit_log_oldest_write_seconds',
    'For how long what waits longest to be written to the delivery log has waited; 0 when nothing waits.',
    () => ({ delivery: eventLog.oldestMs() / 1000, outcome: outcomes.oldestMs() / 1000 }),
    'kind',
  )
  registry.gauge(
    'davit_deliveries_finished',
    'Finished deliveries that have an object.',
    () => retention.stats().finished,
  )
  registry.gauge('davit_log_bytes', 'Size of the delivery log, about.', () => retention.stats().logBytes)
  registry.gauge(
    'davit_log_segments',
    'Segments of the delivery log, by what is in them.',
    () => {
      const { logSegments, outcomeSegments } = retention.stats()
      return { delivery: logSegments, outcome: outcomeSegments }
    },
    'kind',
  )
  registry.gauge(
    'davit_log_oldest_segment_seconds',
    'Age of the oldest segment of the delivery log.',
    () => retention.stats().oldestSegmentAgeMs / 1000,
  )
  registry.gauge(
    'davit_retention_deleted',
    'Objects that retention has deleted since the start.',
    () => retention.stats().deleted,
  )
}

function registerLoops(registry: GaugeRegistry, { parts, leaderTasks }: RunningController): void {
  const { endpointLoop, eventLoop } = parts
  const secrets = () => leaderTasks.running?.secrets.parts
  const bakes = () => leaderTasks.running?.bakes.parts
  registry.gauge(
    'davit_queue_depth',
    'Objects that wait for a pass.',
    () => ({
      'webhook-endpoint': endpointLoop.depth,
      'webhook-event': eventLoop.depth,
      'secrets-settings': secrets()?.settingsLoop.depth ?? 0,
      'registry-credential': secrets()?.credentialLoop.depth ?? 0,
      'box-template': bakes()?.templateLoop.depth ?? 0,
    }),
    'controller',
  )
  registry.gaugeRows(
    'davit_objects_not_ready',
    'Objects whose condition Ready is not True, by kind and reason.',
    ['kind', 'reason'],
    () =>
      countNotReady({
        WebhookEndpoint: [...parts.directory.all()].map(({ endpoint }) => endpoint),
        RegistryCredential: secrets()?.credentials.all() ?? [],
        SecretsSettings: secrets()?.settings.all() ?? [],
        BoxTemplate: bakes()?.templates.all() ?? [],
      }),
  )
  registry.gauge(
    'davit_orphaned_parameters',
    'Parameters that could not be removed, as recorded.',
    () => secrets()?.ledger.size ?? 0,
  )
  registry.gauge('davit_bakes_under_way', 'Bakes that have not ended.', () => bakes()?.slots.taken ?? 0)
  registry.gauge(
    'davit_bakes_waiting',
    'Templates that wait for their turn to bake.',
    () => bakes()?.slots.waiting ?? 0,
  )
}
