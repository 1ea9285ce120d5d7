/** What is read of the index when Prometheus scrapes. */
import type { GaugeRegistry } from '../../lib/metrics.ts'
import type { IndexStats } from './delivery-index.ts'

export function registerIndexGauges(
  registry: Pick<GaugeRegistry, 'gauge'>,
  index: { stats(): IndexStats },
): void {
  registry.gauge(
    'davit_index_deliveries',
    'Deliveries in the log of all endpoints, as the facade shows it.',
    () => index.stats().lines,
  )
  registry.gauge('davit_index_bytes', 'Memory of that log, about.', () => index.stats().bytes)
  registry.gauge(
    'davit_index_dropped',
    'Deliveries that are not shown because there are more than may be kept in mind, since the start: the oldest of those that have ended.',
    () => index.stats().dropped,
  )
  registry.gauge(
    'davit_index_held_outcomes',
    'Outcomes that wait until the events they speak of are seen.',
    () => index.stats().held,
  )
  registry.gauge(
    'davit_index_restarts',
    'How often that log had to be read again from the beginning.',
    () => index.stats().restarts,
  )
  registry.gauge(
    'davit_index_reading',
    'Whether that log is being read, so that its routes are put off: 0 or 1.',
    () => Number(index.stats().reading),
  )
}
