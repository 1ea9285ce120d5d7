/**
 * The counters and histograms of Davit, as one table. `gauges.ts` has the metrics that are read when Prometheus scrapes. Counting never
 * fails, and no label grows without bound.
 */
import { Counter, collectDefaultMetrics, Gauge, Histogram, Registry } from 'prom-client'
import { bakeFailureCode } from '../apis/bake.ts'
import type { BakeMetrics } from '../boxes/controller/gather.ts'
import {
  type ApiCallMetrics,
  ATTEMPT_CLASSES,
  type CloudMetrics,
  type CredentialMetrics,
  type DeliveryMetrics,
  EVENT_DROPS,
  FINISHED_STATES,
  type GaugeRegistry,
  type GaugeRow,
  type LogMetrics,
  MAIL_RESULTS,
  type MailMetrics,
  RECONCILE_RESULTS,
  REMOVAL_RESULTS,
  type RecorderMetrics,
  type RuntimeMetrics,
  SEGMENT_KINDS,
  STORE_RESULTS,
} from '../lib/metrics.ts'
import type { RequestMetrics } from '../server/http/context.ts'

export type Metrics = DeliveryMetrics &
  LogMetrics &
  ApiCallMetrics &
  CloudMetrics &
  CredentialMetrics &
  BakeMetrics &
  MailMetrics &
  RecorderMetrics &
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
  return {
    attempts: counter('davit_attempts_total', 'Delivery attempts, by result.', { result: ATTEMPT_CLASSES }),
    finished: counter('davit_deliveries_finished_total', 'Finished deliveries, by state.', {
      state: FINISHED_STATES,
    }),
    viewsLeftOut: counter(
      'davit_views_omitted_total',
      'Successful deliveries for which no object was created because the rate limit was reached.',
      {},
    ),
    payloads: sum(
      'davit_payload_read_bytes_total',
      'Bytes of payloads that were read again from the delivery log.',
    ),
    segments: counter('davit_segment_writes_total', 'Segments written to the delivery log.', {
      kind: SEGMENT_KINDS,
    }),
    apiCalls: counter('davit_api_calls_total', 'Requests to the Kubernetes API server.', {
      verb: OPEN,
      code: OPEN,
    }),
    // Its codes are known, but hundreds, of which an operation returns a few.
    cloudCalls: counter('davit_cloud_calls_total', 'Attempts of AWS API requests.', {
      operation: OPEN,
      code: OPEN,
    }),
    cloudRetries: counter('davit_cloud_retries_total', 'Attempts of AWS API requests that were retried.', {
      operation: OPEN,
      code: OPEN,
    }),
    stored: counter('davit_secrets_stored_total', 'Secrets stored in the AWS accounts of organizations.', {
      result: STORE_RESULTS,
    }),
    removed: counter('davit_parameters_removed_total', 'Parameter removals, by result.', {
      result: REMOVAL_RESULTS,
    }),
    bakes: counter('davit_bakes_total', 'Finished bakes, by result.', {
      result: ['succeeded', ...bakeFailureCode.options],
    }),
    mails: counter('davit_mails_total', 'Emails to owners, by result.', { result: MAIL_RESULTS }),
    eventDrops: counter(
      'davit_kubernetes_events_dropped_total',
      'Kubernetes Events that were not written, by reason.',
      { reason: EVENT_DROPS },
    ),
    passes: counter('davit_reconcile_total', 'Reconciliations of a controller, by result.', {
      controller: OPEN,
      result: RECONCILE_RESULTS,
    }),
    restarts: counter('davit_watch_restarts_total', 'Watch restarts, by resource and reason.', {
      resource: OPEN,
      reason: OPEN,
    }),
    requests: counter('davit_http_requests_total', 'Requests to the REST API, by operation.', {
      route: OPEN,
      code: OPEN,
    }),
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
      { kind: SEGMENT_KINDS },
    ),
    segmentWrite: histogram(
      'davit_segment_write_duration_seconds',
      'Duration of a segment write.',
      CALL_SECONDS,
      { kind: SEGMENT_KINDS },
    ),
    apiCall: histogram(
      'davit_api_call_duration_seconds',
      'Duration of a request to the Kubernetes API server.',
      CALL_SECONDS,
      { verb: OPEN },
    ),
    cloudCall: histogram(
      'davit_cloud_call_duration_seconds',
      'Duration of an attempt of an AWS API request.',
      CALL_SECONDS,
      { operation: OPEN },
    ),
    cloudTurn: histogram(
      'davit_cloud_turn_wait_seconds',
      'Time that a request waited for the rate limit of an AWS account and region.',
      TURN_SECONDS,
      { operation: OPEN },
    ),
    bake: histogram('davit_bake_duration_seconds', 'Duration of a successful bake.', BAKE_SECONDS),
    pass: histogram('davit_reconcile_duration_seconds', 'Duration of a reconciliation.', CALL_SECONDS, {
      controller: OPEN,
    }),
    request: histogram(
      'davit_http_request_duration_seconds',
      'Time from the headers of a request to the end of its response.',
      CALL_SECONDS,
      { route: OPEN },
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
      count.attempts.add(result)
      observe.attempt.add(seconds)
    },
    finished(state, secondsSinceAccepted) {
      count.finished.add(state)
      observe.toEnd.add(secondsSinceAccepted)
    },
    started: (secondsSinceAccepted) => observe.toStart.add(secondsSinceAccepted),
    viewLeftOut: () => count.viewsLeftOut.add(),
    payloadsRead: (bytes) => count.payloads(bytes),
    segment(kind, size, seconds) {
      count.segments.add(kind)
      observe.segmentSize.add(size, kind)
      observe.segmentWrite.add(seconds, kind)
    },
    apiCall(verb, code, seconds) {
      count.apiCalls.add(verb, code)
      observe.apiCall.add(seconds, verb)
    },
    cloudCall(operation, code, seconds) {
      count.cloudCalls.add(operation, code)
      observe.cloudCall.add(seconds, operation)
    },
    cloudRetry: (operation, code) => count.cloudRetries.add(operation, code),
    cloudTurn: (operation, seconds) => observe.cloudTurn.add(seconds, operation),
    secretStored: (how) => count.stored.add(how),
    parameterRemoved: (outcome) => count.removed.add(outcome),
    baked(result, seconds) {
      count.bakes.add(result)
      if (result === 'succeeded') observe.bake.add(seconds)
    },
    mailed: (result) => count.mails.add(result),
    kubernetesEventDropped: (reason) => count.eventDrops.add(reason),
    controllerAdded(controller) {
      for (const result of RECONCILE_RESULTS) count.passes.start(controller, result)
      observe.pass.start(controller)
    },
    reconciled(controller, result, seconds) {
      count.passes.add(controller, result)
      observe.pass.add(seconds, controller)
    },
    watchAdded(resource, reasons) {
      for (const reason of reasons) count.restarts.start(resource, reason)
    },
    watchRestarted: (resource, reason) => count.restarts.add(resource, reason),
    answered(route, status, seconds) {
      count.requests.add(route, String(status))
      observe.request.add(seconds, route)
    },
  }
}

/** The values of a label: all of them, which have a series from the start, or not known before they occur. */
const OPEN = Symbol('open')
type LabelValues = readonly string[] | typeof OPEN

type Counting = {
  /** Adds 1. @param labels values in the order in which the labels are declared */
  add(...labels: string[]): void
  /** Exports a series from now on: Prometheus sees no increase in the first sample of a series. */
  start(...labels: string[]): void
}

type Observing = { add(value: number, ...labels: string[]): void; start(...labels: string[]): void }

type Instruments = GaugeRegistry & {
  counter(name: string, help: string, labels: Readonly<Record<string, LabelValues>>): Counting
  /** A counter that grows by more than one at a time. */
  sum(name: string, help: string): (amount: number) => void
  histogram(
    name: string,
    help: string,
    buckets: readonly number[],
    labels?: Readonly<Record<string, LabelValues>>,
  ): Observing
}

/** Distinct values of one label; the rest count as `other`. */
const MAX_LABEL_VALUES = 100
const OTHER = 'other'

function createInstruments(registry: Registry): Instruments {
  const registers = [registry]
  return {
    counter(name, help, labels) {
      const labelNames = Object.keys(labels)
      const counter = new Counter({ name, help, labelNames, registers })
      const bounded = boundedLabels(labelNames)
      const start = (...values: string[]) => counter.labels(...bounded(values)).inc(0)
      for (const values of combinations(Object.values(labels))) start(...values)
      return { start, add: (...values) => counter.labels(...bounded(values)).inc() }
    },
    sum(name, help) {
      const counter = new Counter({ name, help, registers })
      return (amount) => counter.inc(amount)
    },
    histogram(name, help, buckets, labels = {}) {
      const labelNames = Object.keys(labels)
      const histogram = new Histogram({ name, help, buckets: [...buckets], labelNames, registers })
      const bounded = boundedLabels(labelNames)
      const start = (...values: string[]) =>
        histogram.zero(Object.fromEntries(bounded(values).map((value, i) => [labelNames[i] ?? '', value])))
      if (labelNames.length > 0) for (const values of combinations(Object.values(labels))) start(...values)
      return {
        start,
        add(value, ...values) {
          // Durations are negative if the clock was set back.
          const sane = Number.isFinite(value) ? Math.max(0, value) : 0
          histogram.labels(...bounded(values)).observe(sane)
        },
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

/** Every combination of the values; none if those of a label are not known. */
function combinations(labels: readonly LabelValues[]): string[][] {
  return labels.reduce<string[][]>(
    (all, values) => (values === OPEN ? [] : all.flatMap((some) => values.map((value) => [...some, value]))),
    [[]],
  )
}

function boundedLabels(names: readonly string[]): (values: readonly string[]) => string[] {
  const bounded = names.map(boundedLabel)
  return (values) => bounded.map((bound, i) => bound(values[i] ?? ''))
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
