/** What is read when Prometheus scrapes the facade. */
import { registerIndexGauges } from '../controllers/facade/delivery-index/gauges.ts'
import type { GaugeRegistry } from '../ports/metrics.ts'
import type { RunningApi } from './api.ts'

export function registerApiGauges(registry: GaugeRegistry, api: RunningApi): void {
  registry.gauge('davit_http_requests_in_flight', 'Requests of the REST API that are being answered.', () =>
    api.inFlight(),
  )
  registerIndexGauges(registry, { stats: () => api.indexStats() })
}
