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

/** Instruments of one registry, made so that counting can never fail or grow without bound. */

export type Count = (...labels: string[]) => void
export type Observe = (value: number, ...labels: string[]) => void

type Instruments = GaugeRegistry & {
  /**
   * @param labels names of the labels whose values each call gives, in this order
   * @param known values of its one label that are shown from the start: Prometheus sees no increase in the first sample of a series
   */
  counter(name: string, help: string, labels: readonly string[], known?: readonly string[]): Count
  histogram(name: string, help: string, buckets: readonly number[], label?: string): Observe
}

/** Values of one label that are told apart; the rest are counted as `other`. */
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
    histogram(name, help, buckets, label) {
      const labelNames = label === undefined ? [] : [label]
      const histogram = new Histogram({ name, help, buckets: [...buckets], labelNames, registers })
      const bounded = labelNames.map(boundedLabel)
      return (value, ...values) => {
        // A clock that was set back makes negative durations.
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
          // Values that are no longer read must not stay at their last number.
          this.reset()
          for (const [value, number] of readings(read)) {
            if (label === undefined) this.set(number)
            else this.set({ [label]: value }, number)
          }
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

/** A gauge that cannot be read shows NaN: one bad reading must not take the whole scrape with it. */
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

/** What Davit counts, as Prometheus reads it. */

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
    /** The text that is scraped. */
    render(): Promise<string>
    /** Of that text. */
    contentType: string
  }

/** Up to the deadline of an attempt. */
const ATTEMPT_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20]
/** Milliseconds while all is well, minutes with a backlog. */
const START_SECONDS = [0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 1800]
/** From a first attempt that succeeds to the last of eight, about nine hours later. */
const END_SECONDS = [0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 30, 60, 300, 1800, 3600, 10_800, 21_600, 36_000]
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30]
/** A turn comes at once, or after those of many others. */
const TURN_SECONDS = [0.001, 0.01, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 180, 600]
/** Small images that are near, to large ones that are far. */
const BAKE_SECONDS = [5, 15, 30, 60, 120, 300, 600, 1200, 3600, 10_800]
const SEGMENT_SIZES = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 4096]

/**
 * How often the event loop is looked at for its lag, which is told as at least that: at the default of ten milliseconds an idle
 * process spends more on that than on all else.
 */
const EVENT_LOOP_MS = 50

/** A registry of its own, with the metrics of the process and of its event loop. @param build which program it is, and as what it runs */
export function createMetrics({ version, role = '' }: { version: string; role?: string }): Metrics {
  const registry = new Registry()
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: EVENT_LOOP_MS })
  const instruments = createInstruments(registry)
  instruments.gaugeRows(
    'davit_build_info',
    'The version that runs, and its role; always 1.',
    ['version', 'role'],
    () => [{ labels: [version, role], value: 1 }],
  )
  return {
    ...deliveryMetrics(instruments),
    ...logMetrics(instruments),
    ...apiCallMetrics(instruments),
    ...cloudMetrics(instruments),
    ...credentialMetrics(instruments),
    ...bakeMetrics(instruments),
    ...mailMetrics(instruments),
    ...runtimeMetrics(instruments),
    ...requestMetrics(instruments),
    gauge: instruments.gauge,
    gaugeRows: instruments.gaugeRows,
    render: () => registry.metrics(),
    contentType: registry.contentType,
  }
}

function deliveryMetrics({ counter, histogram }: Instruments): DeliveryMetrics {
  const attempts = counter('davit_attempts_total', 'Attempts of deliveries, by result.', ['class'])
  const attemptSeconds = histogram(
    'davit_attempt_duration_seconds',
    'Duration of an attempt.',
    ATTEMPT_SECONDS,
  )
  const ends = counter('davit_deliveries_finished_total', 'Deliveries that came to their end, by state.', [
    'state',
  ])
  const endSeconds = histogram(
    'davit_event_to_end_seconds',
    'From the acceptance of an event to the end of a delivery.',
    END_SECONDS,
  )
  const startSeconds = histogram(
    'davit_event_to_first_attempt_seconds',
    'From the acceptance of an event to the first attempt of a delivery.',
    START_SECONDS,
  )
  return {
    attempt(result, seconds) {
      attempts(result)
      attemptSeconds(seconds)
    },
    finished(state, secondsSinceAccepted) {
      ends(state)
      endSeconds(secondsSinceAccepted)
    },
    started: (secondsSinceAccepted) => startSeconds(secondsSinceAccepted),
  }
}

function logMetrics({ counter, histogram }: Instruments): LogMetrics {
  const writes = counter('davit_segment_writes_total', 'Segments written to the delivery log.', ['kind'])
  const sizes = histogram(
    'davit_segment_size',
    'Events or outcome records in a segment.',
    SEGMENT_SIZES,
    'kind',
  )
  const writeSeconds = histogram(
    'davit_segment_write_seconds',
    'Duration of writing a segment.',
    CALL_SECONDS,
    'kind',
  )
  return {
    segment(kind, size, seconds) {
      writes(kind)
      sizes(size, kind)
      writeSeconds(seconds, kind)
    },
  }
}

function apiCallMetrics({ counter, histogram }: Instruments): ApiCallMetrics {
  const calls = counter('davit_api_calls_total', 'Calls of the Kubernetes API.', ['verb', 'code'])
  const callSeconds = histogram(
    'davit_api_call_duration_seconds',
    'Duration of a call of the Kubernetes API.',
    CALL_SECONDS,
    'verb',
  )
  return {
    apiCall(verb, code, seconds) {
      calls(verb, code)
      callSeconds(seconds, verb)
    },
  }
}

function cloudMetrics({ counter, histogram }: Instruments): CloudMetrics {
  const labels = ['operation', 'code']
  const calls = counter('davit_cloud_calls_total', 'Attempts of calls to the cloud.', labels)
  const retries = counter('davit_cloud_retries_total', 'Attempts that another one follows.', labels)
  const callSeconds = histogram(
    'davit_cloud_call_duration_seconds',
    'Duration of an attempt of a call to the cloud.',
    CALL_SECONDS,
    'operation',
  )
  const turnSeconds = histogram(
    'davit_cloud_turn_wait_seconds',
    'Waiting for a turn at an account and region.',
    TURN_SECONDS,
    'operation',
  )
  return {
    cloudCall(operation, code, seconds) {
      calls(operation, code)
      callSeconds(seconds, operation)
    },
    cloudRetry: (operation, code) => retries(operation, code),
    cloudTurn: (operation, seconds) => turnSeconds(seconds, operation),
  }
}

function credentialMetrics({ counter }: Instruments): CredentialMetrics {
  const stored = counter('davit_secrets_stored_total', 'Secrets stored in accounts of organizations.', [
    'how',
  ])
  const removed = counter(
    'davit_parameters_removed_total',
    'Parameters that were to be removed, by what came of it.',
    ['outcome'],
  )
  return {
    secretStored: (how) => stored(how),
    parameterRemoved: (outcome) => removed(outcome),
  }
}

function bakeMetrics({ counter, histogram }: Instruments): BakeMetrics {
  const known = ['succeeded', ...bakeFailureCode.options]
  const ends = counter('davit_bakes_total', 'Bakes that ended, by what came of them.', ['result'], known)
  const took = histogram(
    'davit_bake_duration_seconds',
    'From the beginning of a bake that succeeded to its end.',
    BAKE_SECONDS,
  )
  return {
    baked(result, seconds) {
      ends(result)
      if (result === 'succeeded') took(seconds)
    },
  }
}

function mailMetrics({ counter }: Instruments): MailMetrics {
  const known = ['mailed', 'refused', 'no-mail-server', 'no-owners']
  const mails = counter('davit_mails_total', 'Mails to owners, by what became of them.', ['result'], known)
  return { mailed: (result) => mails(result) }
}

function requestMetrics({ counter, histogram }: Instruments): RequestMetrics {
  const requests = counter('davit_http_requests_total', 'Requests of the REST API, by operation.', [
    'route',
    'status',
  ])
  const requestSeconds = histogram(
    'davit_http_request_duration_seconds',
    'From the headers of a request to the end of its answer.',
    CALL_SECONDS,
    'route',
  )
  return {
    answered(route, status, seconds) {
      requests(route, String(status))
      requestSeconds(seconds, route)
    },
  }
}

/** Named as in controller-runtime, so that its dashboards show them. */
function runtimeMetrics({ counter, histogram }: Instruments): RuntimeMetrics {
  const passes = counter('controller_runtime_reconcile_total', 'Passes of a controller, by result.', [
    'controller',
    'result',
  ])
  const passSeconds = histogram(
    'controller_runtime_reconcile_time_seconds',
    'Duration of a pass of a controller.',
    CALL_SECONDS,
    'controller',
  )
  const restarts = counter('davit_watch_restarts_total', 'Watches that ended and started again.', [
    'resource',
    'reason',
  ])
  return {
    reconciled(controller, result, seconds) {
      passes(controller, result)
      passSeconds(seconds, controller)
    },
    watchRestarted: (resource, reason) => restarts(resource, reason),
  }
}
