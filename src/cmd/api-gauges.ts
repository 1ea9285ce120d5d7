/** What is read when Prometheus scrapes the facade. */

import type { GaugeRegistry } from '../lib/metrics.ts'
import { registerIndexGauges } from '../server/delivery-index/gauges.ts'
import type { RunningApi } from './api.ts'
import type { Config } from './config.ts'
import { registerLease, registerLimits } from './shared-gauges.ts'

export function registerApiGauges(
  registry: GaugeRegistry,
  api: RunningApi,
  config: Pick<Config, 'intake' | 'api'>,
): void {
  registerLease(registry, {
    isHeld: () => api.replicaStats().isWaitedFor,
    ageMs: () => api.replicaStats().leaseAgeMs,
  })
  registerLimits(registry, {
    deliveries_pending: config.intake.pending.all,
    written_bytes: config.intake.writtenBytes.all,
    index_deliveries: config.api.maxShown,
  })
  registry.gauge(
    'davit_written_bytes',
    'Bytes that events have added to the store of the cluster in the last ten minutes, about.',
    () => api.appendStats().writtenBytes,
  )
  registry.gauge(
    'davit_log_oldest_write_seconds',
    'For how long what waits longest to be written to the delivery log has waited; 0 when nothing waits.',
    () => ({ delivery: api.appendStats().oldestMs / 1000 }),
    'kind',
  )
  registry.gauge('davit_http_requests_in_flight', 'Requests of the REST API that are being answered.', () =>
    api.inFlight(),
  )
  registry.gauge(
    'davit_changes_waiting',
    'Changes of endpoints that wait until the other replicas have seen them.',
    () => api.replicaStats().waiting,
  )
  registerIndexGauges(registry, { stats: () => api.indexStats() })
}
