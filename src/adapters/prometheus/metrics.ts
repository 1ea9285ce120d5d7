/** What Davit counts, as Prometheus reads it. Label values come from small closed sets. */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import type {
  ApiCallMetrics,
  DeliveryMetrics,
  GaugeRegistry,
  LogMetrics,
  RuntimeMetrics,
} from '../../ports/metrics.ts'

export type Metrics = DeliveryMetrics &
  LogMetrics &
  ApiCallMetrics &
  RuntimeMetrics &
  GaugeRegistry & {
    /** The text that is scraped. */
    render(): Promise<string>
    contentType: string
  }

const LATENCY_SECONDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 30]
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]
/** From a first attempt at once to the last of eight. */
const END_SECONDS = [0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 10_800, 36_000]
const SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]

export function createMetrics(build: { version: string }): Metrics {
  const registers = [new Registry()]
  const [registry] = registers as [Registry]
  collectDefaultMetrics({ register: registry })
  const counter = (name: string, help: string, ...labelNames: string[]) =>
    new Counter({ name, help, labelNames, registers })
  const histogram = (name: string, help: string, buckets: number[], ...labelNames: string[]) =>
    new Histogram({ name, help, buckets, labelNames, registers })
  const buildInfo = new Gauge({
    name: 'davit_build_info',
    help: 'The version that runs.',
    labelNames: ['version'],
    registers,
  })
  buildInfo.set(build, 1)
  const attempts = counter('davit_attempts_total', 'Attempts of deliveries by their result.', 'class')
  const attemptSeconds = histogram(
    'davit_attempt_duration_seconds',
    'How long attempts took.',
    LATENCY_SECONDS,
  )
  const finished = counter(
    'davit_deliveries_finished_total',
    'Deliveries that came to their end, by how.',
    'state',
  )
  const endSeconds = histogram(
    'davit_event_to_end_seconds',
    'From acceptance of an event to the end of a delivery.',
    END_SECONDS,
  )
  const startSeconds = histogram(
    'davit_event_to_first_attempt_seconds',
    'From acceptance of an event to its first attempt.',
    LATENCY_SECONDS,
  )
  const segmentWrites = counter('davit_segment_writes_total', 'Segments written to the delivery log.', 'kind')
  const segmentSize = histogram('davit_segment_size', 'Events or records in a segment.', SIZES, 'kind')
  const segmentSeconds = histogram(
    'davit_segment_write_seconds',
    'How long writing a segment took.',
    CALL_SECONDS,
    'kind',
  )
  const calls = counter('davit_api_calls_total', 'Calls of the API server.', 'verb', 'code')
  const callSeconds = histogram(
    'davit_api_call_duration_seconds',
    'How long calls of the API server took.',
    CALL_SECONDS,
    'verb',
  )
  const reconciled = counter(
    'controller_runtime_reconcile_total',
    'Passes of a controller by their result.',
    'controller',
    'result',
  )
  const reconcileSeconds = histogram(
    'controller_runtime_reconcile_time_seconds',
    'How long passes took.',
    CALL_SECONDS,
    'controller',
  )
  const restarts = counter(
    'davit_watch_restarts_total',
    'Watches that ended and started again.',
    'resource',
    'reason',
  )
  return {
    contentType: registry.contentType,
    render: () => registry.metrics(),
    attempt(result, seconds) {
      attempts.inc({ class: result })
      attemptSeconds.observe(seconds)
    },
    finished(state, seconds) {
      finished.inc({ state })
      endSeconds.observe(seconds)
    },
    started: (seconds) => startSeconds.observe(Math.max(0, seconds)),
    segment(kind, size, seconds) {
      segmentWrites.inc({ kind })
      segmentSize.observe({ kind }, size)
      segmentSeconds.observe({ kind }, seconds)
    },
    apiCall(verb, code, seconds) {
      calls.inc({ verb, code })
      callSeconds.observe({ verb }, seconds)
    },
    reconciled(controller, result, seconds) {
      reconciled.inc({ controller, result })
      reconcileSeconds.observe({ controller }, seconds)
    },
    watchRestarted: (resource, reason) => restarts.inc({ resource, reason }),
    gauge: (name, help, read, label) => registerGauge(registers, { name, help, read, label }),
  }
}

type GaugeOptions = {
  name: string
  help: string
  read: () => number | Record<string, number>
  label: string | undefined
}

function registerGauge(registers: Registry[], { name, help, read, label }: GaugeOptions): void {
  new Gauge({
    name,
    help,
    registers,
    labelNames: label === undefined ? [] : [label],
    collect() {
      const value = read()
      if (typeof value === 'number') this.set(value)
      else for (const [key, each] of Object.entries(value)) this.set({ [label ?? 'key']: key }, each)
    },
  })
}
