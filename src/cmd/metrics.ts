/**
 * The counters and histograms of Davit, as one table. `gauges.ts` has the metrics that are read when Prometheus scrapes. Counting never
 * fails, and no label grows without bound.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { bakeFailureCode } from '../apis/bake.ts'
import type { BakeMetrics } from '../boxes/controller/gather.ts'
import type {
  ApiCallMetrics,
  CloudMetrics,
  CredentialMetrics,
  DeliveryMetrics,
  GaugeRegistry,
  GaugeRow,
  LogMetrics,
  MailMetrics,
  RuntimeMetrics,
} from '../lib/metrics.ts'
import type { RequestMetrics } from '../server/http/context.ts'

export type Metrics = DeliveryMetrics &
  LogMetrics &
  ApiCallMetrics &
  CloudMetrics &
  CredentialMetrics &
  BakeMetrics &
  MailMetrics &
  RuntimeMetrics &
  RequestMetrics &
  GaugeRegistry & {
    /** The text that Prometheus scrapes. */
    render(): Promise<string>
    contentType: string
  }

/** Up to the deadline of an attempt. */
const ATTEMPT_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20]
/** Milliseconds normally, minutes with a backlog. */
const START_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]
/** From a first attempt that succeeds to the eighth, about nine hours later. */
const END_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 10_800, 21_600, 36_000]
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** At once, or after many other calls. */
const TURN_SECONDS = [0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600]
/** From small images nearby to large ones far away. */
const BAKE_SECONDS = [5, 15, 30, 60, 120, 300, 600, 1200, 3600, 10_800]
const SEGMENT_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]

/** At the default of 10 ms, an idle process would spend more on measuring the lag of its event loop than on everything else. */
const EVENT_LOOP_MS = 50

/** Gauges of prom-client with the suffix of counters. The same numbers are in `nodejs_active_handles` and the like, by type. */
const MISNAMED_DEFAULTS = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

export function createMetrics({ version, role = '' }: { version: string; role?: string }): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_MS })
  for (const name of MISNAMED_DEFAULTS) registry.removeSingleMetric(name)
  const instruments = createInstruments(registry)
  const { gauge, gaugeRows, total } = instruments
  gaugeRows(
    'davit_build_info',
    'Version and role of the running process; always 1.',
    ['version', 'role'],
    () => [{ labels: [version, role], value: 1 }],
  )
  return {
    ...recorders(counters(instruments), histograms(instruments)),
    gauge,
    gaugeRows,
    total,
    render: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function counters({ counter, sum }: Instruments) {
  const cloudLabels = ['operation', 'code']
  const mailed = ['mailed', 'refused', 'no_mail_server', 'no_owners']
  const baked = ['succeeded', ...bakeFailureCode.options]
  return {
    attempts: counter('davit_attempts_total', 'Delivery attempts, by result.', ['result']),
    finished: counter('davit_deliveries_finished_total', 'Finished deliveries, by state.', ['state']),
    viewsLeftOut: counter(
      'davit_views_omitted_total',
      'Successful deliveries for which no object was created because the rate limit was reached.',
      [],
    ),
    payloads: sum(
      'davit_payload_read_bytes_total',
      'Bytes of payloads that were read again from the delivery log.',
    ),
    segments: counter('davit_segment_writes_total', 'Segments written to the delivery log.', ['kind']),
    apiCalls: counter('davit_api_calls_total', 'Requests to the Kubernetes API server.', ['verb', 'code']),
    cloudCalls: counter('davit_cloud_calls_total', 'Attempts of AWS API requests.', cloudLabels),
    cloudRetries: counter(
      'davit_cloud_retries_total',
      'Attempts of AWS API requests that were retried.',
      cloudLabels,
    ),
    stored: counter('davit_secrets_stored_total', 'Secrets stored in the AWS accounts of organizations.', [
      'result',
    ]),
    removed: counter('davit_parameters_removed_total', 'Parameter removals, by result.', ['result']),
    bakes: counter('davit_bakes_total', 'Finished bakes, by result.', ['result'], baked),
    mails: counter('davit_mails_total', 'Emails to owners, by result.', ['result'], mailed),
    passes: counter('davit_reconcile_total', 'Reconciliations of a controller, by result.', [
      'controller',
      'result',
    ]),
    restarts: counter('davit_watch_restarts_total', 'Watch restarts, by resource and reason.', [
      'resource',
      'reason',
    ]),
    requests: counter('davit_http_requests_total', 'Requests to the REST API, by operation.', [
      'route',
      'code',
    ]),
  }
}

function histograms({ histogram }: Instruments) {
  return {
    attempt: histogram('davit_attempt_duration_seconds', 'Duration of a delivery attempt.', ATTEMPT_SECONDS),
    toEnd: histogram(
      'davit_delivery_completion_delay_seconds',
      'Time from the acceptance of an event to the end of a delivery.',
      END_SECONDS,
    ),
    toStart: histogram(
      'davit_delivery_first_attempt_delay_seconds',
      'Time from the acceptance of an event to the first attempt of a delivery.',
      START_SECONDS,
    ),
    segmentSize: histogram(
      'davit_segment_records',
      'Number of events or outcome records in a segment.',
      SEGMENT_SIZES,
      'kind',
    ),
    segmentWrite: histogram(
      'davit_segment_write_duration_seconds',
      'Duration of a segment write.',
      CALL_SECONDS,
      'kind',
    ),
    apiCall: histogram(
      'davit_api_call_duration_seconds',
      'Duration of a request to the Kubernetes API server.',
      CALL_SECONDS,
      'verb',
    ),
    cloudCall: histogram(
      'davit_cloud_call_duration_seconds',
      'Duration of an attempt of an AWS API request.',
      CALL_SECONDS,
      'operation',
    ),
    cloudTurn: histogram(
      'davit_cloud_turn_wait_seconds',
      'Time that a request waited for the rate limit of an AWS account and region.',
      TURN_SECONDS,
      'operation',
    ),
    bake: histogram('davit_bake_duration_seconds', 'Duration of a successful bake.', BAKE_SECONDS),
    pass: histogram(
      'davit_reconcile_duration_seconds',
      'Duration of a reconciliation.',
      CALL_SECONDS,
      'controller',
    ),
    request: histogram(
      'davit_http_request_duration_seconds',
      'Time from the headers of a request to the end of its response.',
      CALL_SECONDS,
      'route',
    ),
  }
}

/** Which metrics each fact feeds. */
function recorders(
  count: ReturnType<typeof counters>,
  observe: ReturnType<typeof histograms>,
): Omit<Metrics, keyof GaugeRegistry | 'render' | 'contentType'> {
  return {
    attempt(result, seconds) {
      count.attempts(result)
      observe.attempt(seconds)
    },
    finished(state, secondsSinceAccepted) {
      count.finished(state)
      observe.toEnd(secondsSinceAccepted)
    },
    started: (secondsSinceAccepted) => observe.toStart(secondsSinceAccepted),
    viewLeftOut: () => count.viewsLeftOut(),
    payloadsRead: (bytes) => count.payloads(bytes),
    segment(kind, size, seconds) {
      count.segments(kind)
      observe.segmentSize(size, kind)
      observe.segmentWrite(seconds, kind)
    },
    apiCall(verb, code, seconds) {
      count.apiCalls(verb, code)
      observe.apiCall(seconds, verb)
    },
    cloudCall(operation, code, seconds) {
      count.cloudCalls(operation, code)
      observe.cloudCall(seconds, operation)
    },
    cloudRetry: (operation, code) => count.cloudRetries(operation, code),
    cloudTurn: (operation, seconds) => observe.cloudTurn(seconds, operation),
    secretStored: (how) => count.stored(how),
    parameterRemoved: (outcome) => count.removed(outcome),
    baked(result, seconds) {
      count.bakes(result)
      if (result === 'succeeded') observe.bake(seconds)
    },
    mailed: (result) => count.mails(result),
    reconciled(controller, result, seconds) {
      count.passes(controller, result)
      observe.pass(seconds, controller)
    },
    watchRestarted: (resource, reason) => count.restarts(resource, reason),
    answered(route, status, seconds) {
      count.requests(route, String(status))
      observe.request(seconds, route)
    },
  }
}

type Instruments = GaugeRegistry & {
  /**
   * @param labels names of the labels; each call passes their values in this order
   * @param known values of its one label to export from the start: Prometheus sees no increase in the first sample of a series
   */
  counter(
    name: string,
    help: string,
    labels: readonly string[],
    known?: readonly string[],
  ): (...labels: string[]) => void
  /** A counter that grows by more than one at a time. */
  sum(name: string, help: string): (amount: number) => void
  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
    label?: string,
  ): (value: number, ...labels: string[]) => void
}

/** Distinct values of one label; the rest count as `other`. */
const MAX_LABEL_VALUES = 100
const OTHER = 'other'

function createInstruments(registry: Registry): Instruments {
  const registers = [registry]
  return {
    counter(name, help, labelNames, known = []) {
      const counter = new Counter({ name, help, labelNames, registers })
      for (const value of known) counter.labels(value).inc(0)
      const bounded = labelNames.map(boundedLabel)
      return (...values) => counter.labels(...bounded.map((bound, i) => bound(values[i] ?? ''))).inc()
    },
    sum(name, help) {
      const counter = new Counter({ name, help, registers })
      return (amount) => counter.inc(amount)
    },
    histogram(name, help, buckets, label) {
      const labelNames = label === undefined ? [] : [label]
      const histogram = new Histogram({ name, help, buckets: [...buckets], labelNames, registers })
      const bounded = labelNames.map(boundedLabel)
      return (value, ...values) => {
        // Durations are negative if the clock was set back.
        const sane = Number.isFinite(value) ? Math.max(0, value) : 0
        histogram.labels(...bounded.map((bound, i) => bound(values[i] ?? ''))).observe(sane)
      }
    },
    gauge(name, help, read, label) {
      new Gauge({
        name,
        help,
        labelNames: label === undefined ? [] : [label],
        registers,
        collect() {
          // Label values that disappeared must not keep their last number.
          this.reset()
          for (const [value, number] of readings(read)) {
            if (label === undefined) this.set(number)
            else this.set({ [label]: value }, number)
          }
        },
      })
    },
    total(name, help, read) {
      new Counter({
        name,
        help,
        registers,
        collect() {
          this.reset()
          for (const [, number] of readings(read)) if (Number.isFinite(number)) this.inc(number)
        },
      })
    },
    gaugeRows(name, help, labels, read) {
      new Gauge({
        name,
        help,
        labelNames: [...labels],
        registers,
        collect() {
          this.reset()
          for (const { labels: values, value } of rowsOf(read)) this.labels(...values).set(value)
        },
      })
    },
  }
}

function rowsOf(read: () => readonly GaugeRow[]): readonly GaugeRow[] {
  try {
    return read().slice(0, MAX_LABEL_VALUES)
  } catch {
    return []
  }
}

/** A gauge that cannot be read is NaN, so that it does not break the whole scrape. */
function readings(read: () => number | Record<string, number>): [string, number][] {
  try {
    const value = read()
    if (typeof value === 'number') return [['', value]]
    return Object.entries(value).slice(0, MAX_LABEL_VALUES)
  } catch {
    return [['', Number.NaN]]
  }
}

function boundedLabel(): (value: string) => string {
  const known = new Set<string>()
  return (value) => {
    if (known.has(value)) return value
    if (known.size >= MAX_LABEL_VALUES) return OTHER
    known.add(value)
    return value
  }
}
