/** What is read when Prometheus scrapes the controller. */
import type { GaugeRegistry } from '../ports/metrics.ts'
import type { RunningController } from './controller.ts'

export function registerGauges(registry: GaugeRegistry, { parts, secrets, bakes }: RunningController): void {
  const { plane, outcomes, endpointLoop, eventLoop, retention, written } = parts
  const { settingsLoop, credentialLoop, ledger } = secrets.parts
  registry.gauge(
    'davit_orphaned_parameters',
    'Parameters that could not be removed, as recorded.',
    () => ledger.size,
  )
  registry.gauge('davit_bakes_under_way', 'Bakes that have not ended.', () => bakes.parts.turns.taken)
  registry.gauge(
    'davit_bakes_waiting',
    'Templates that wait for their turn to bake.',
    () => bakes.parts.turns.waiting,
  )
  registry.gauge(
    'davit_deliveries_pending',
    'Deliveries that have not come to their end, without those that are held.',
    () => plane.tally.all.pending,
  )
  registry.gauge(
    'davit_deliveries_held',
    'Deliveries of disabled endpoints, which go on when those are enabled.',
    () => plane.tally.all.held,
  )
  registry.gauge(
    'davit_written_bytes',
    'Bytes that events and deliveries have added to the store of the cluster in the last ten minutes, about.',
    () => written.total,
  )
  registry.gauge(
    'davit_deliveries_oldest_pending_seconds',
    'Age of the oldest delivery that is due and has not ended.',
    () => plane.oldestDueSeconds(),
  )
  registry.gauge('davit_attempts_in_flight', 'Attempts under way.', () => plane.stats().inFlight)
  registry.gauge('davit_lanes', 'Endpoints with deliveries that have not ended.', () => plane.stats().lanes)
  registry.gauge(
    'davit_log_open_segments',
    'Segments of the log with something open.',
    () => plane.stats().openSegments,
  )
  registry.gauge('davit_outcomes_waiting', 'Outcomes that wait to become durable.', () => outcomes.waiting())
  registry.gauge(
    'davit_queue_depth',
    'Objects that wait for a pass.',
    () => ({
      'webhook-endpoint': endpointLoop.depth,
      'webhook-event': eventLoop.depth,
      'secrets-settings': settingsLoop.depth,
      'registry-credential': credentialLoop.depth,
      'box-template': bakes.parts.templateLoop.depth,
    }),
    'controller',
  )
  registry.gauge(
    'davit_deliveries_finished',
    'Finished deliveries that have an object.',
    () => retention.stats().finished,
  )
  registry.gauge('davit_log_bytes', 'Size of the delivery log, about.', () => retention.stats().logBytes)
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
