/**
 * The metrics that the parts of Davit record. Label values come from small closed sets: no URLs, ids, namespaces or
 * names.
 */

/** Lists of label values, from which the types are made: every value has a series from the start, at 0. */
export const ATTEMPT_CLASSES = [
  '2xx',
  '3xx',
  '4xx',
  '5xx',
  'refused',
  'blocked',
  'dns',
  'tls',
  'timeout',
  'reset',
  'protocol',
  'canceled',
] as const
export type AttemptClass = (typeof ATTEMPT_CLASSES)[number]

export const FINISHED_STATES = ['succeeded', 'exhausted', 'canceled'] as const
export type FinishedState = (typeof FINISHED_STATES)[number]

export const SEGMENT_KINDS = ['delivery', 'outcome'] as const
export type SegmentKind = (typeof SEGMENT_KINDS)[number]

export const STORE_RESULTS = ['created', 'replaced'] as const
export type StoreResult = (typeof STORE_RESULTS)[number]

/**
 * `forgotten`: could not be removed, and the list of failed deletions was full. `failed`: in a REST request, after
 * which the controller retries.
 */
export const REMOVAL_RESULTS = ['deleted', 'not_found', 'orphaned', 'forgotten', 'failed'] as const
export type RemovalResult = (typeof REMOVAL_RESULTS)[number]

export const RECONCILE_RESULTS = ['done', 'requeued', 'error'] as const
export type ReconcileResultLabel = (typeof RECONCILE_RESULTS)[number]

/** `mailed`, or why no owner was notified. */
export const MAIL_RESULTS = ['mailed', 'refused', 'no_mail_server', 'no_owners'] as const
export type MailResultLabel = (typeof MAIL_RESULTS)[number]

export interface DeliveryMetrics {
  /** @param seconds duration of the attempt */
  attempt(result: AttemptClass, seconds: number): void
  /** A delivery has ended. */
  finished(state: FinishedState, secondsSinceAccepted: number): void
  /** A first attempt started. */
  started(secondsSinceAccepted: number): void
  /** A delivery that succeeded gets no object: there are too many. */
  viewLeftOut(): void
  /** Bodies that were no longer in memory were read from the log. */
  payloadsRead(bytes: number): void
}

export interface LogMetrics {
  /** @param size events and deliveries in the segment @param seconds duration of the write */
  segment(kind: SegmentKind, size: number, seconds: number): void
}

export interface ApiCallMetrics {
  /** @param code HTTP status, or "error" without one */
  apiCall(verb: string, code: string, seconds: number): void
}

export interface CloudMetrics {
  /**
   * One attempt ended. @param operation such as `ssm:PutParameter` @param code `ok`, a code that Davit knows, or
   * `other`
   */
  cloudCall(operation: string, code: string, seconds: number): void
  /** An attempt will be repeated because of `code`. */
  cloudRetry(operation: string, code: string): void
  /** A call was admitted by the rate limit, or gave up waiting. */
  cloudTurn(operation: string, seconds: number): void
}

export interface CredentialMetrics {
  /** A parameter was created, or a version was written. */
  secretStored(result: StoreResult): void
  parameterRemoved(result: RemovalResult): void
}

export interface RuntimeMetrics {
  /** There is such a controller: its counters start at 0. */
  controllerAdded(controller: string): void
  /** One pass of a reconciler. */
  reconciled(controller: string, result: ReconcileResultLabel, seconds: number): void
  /** There is such a watch: its counters start at 0. @param reasons for which it may restart */
  watchAdded(resource: string, reasons: readonly string[]): void
  /** A watch ended and will restart. */
  watchRestarted(resource: string, reason: string): void
}

export interface MailMetrics {
  mailed(result: MailResultLabel): void
}

/**
 * `object_limit`: its object has too many. `queue_full`: its namespace has most of those that wait. `write_failed`: the API server
 * rejected it.
 */
export const EVENT_DROPS = ['object_limit', 'queue_full', 'write_failed'] as const
export type EventDrop = (typeof EVENT_DROPS)[number]

export interface RecorderMetrics {
  /** A Kubernetes Event was not written. */
  kubernetesEventDropped(reason: EventDrop): void
}

/** One series: label values in their order, and the value. */
export type GaugeRow = { labels: readonly string[]; value: number }

/** Values that are read at scrape time. */
export interface GaugeRegistry {
  gauge(name: string, help: string, read: () => number | Record<string, number>, label?: string): void
  /** A counter that is kept elsewhere. */
  total(name: string, help: string, read: () => number): void
  /** With several labels; only the first 100 rows are exported. */
  gaugeRows(name: string, help: string, labels: readonly string[], read: () => readonly GaugeRow[]): void
}

/** For short-lived processes, which are never scraped. */
export const NOOP_METRICS: CloudMetrics = { cloudCall() {}, cloudRetry() {}, cloudTurn() {} }
