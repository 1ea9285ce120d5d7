/**
 * The metrics that the parts of Davit record. Label values come from small closed sets: no URLs, ids, namespaces or
 * names.
 */

export type AttemptClass =
  | '2xx'
  | '3xx'
  | '4xx'
  | '5xx'
  | 'refused'
  | 'blocked'
  | 'dns'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'canceled'

export interface DeliveryMetrics {
  /** @param seconds duration of the attempt */
  attempt(result: AttemptClass, seconds: number): void
  /** A delivery has ended. */
  finished(
    state: 'pending' | 'retrying' | 'succeeded' | 'exhausted' | 'canceled',
    secondsSinceAccepted: number,
  ): void
  /** A first attempt started. */
  started(secondsSinceAccepted: number): void
  /** A delivery that succeeded gets no object: there are too many. */
  viewLeftOut(): void
  /** Bodies that were no longer in memory were read from the log. */
  payloadsRead(bytes: number): void
}

export interface LogMetrics {
  /** @param size events and deliveries in the segment @param seconds duration of the write */
  segment(kind: 'delivery' | 'outcome', size: number, seconds: number): void
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
  secretStored(result: 'created' | 'replaced'): void
  /**
   * `forgotten`: could not be removed, and the list of failed deletions was full. `failed`: in a REST request, after
   * which the controller retries.
   */
  parameterRemoved(result: 'deleted' | 'not_found' | 'orphaned' | 'forgotten' | 'failed'): void
}

export interface RuntimeMetrics {
  /** One pass of a reconciler. */
  reconciled(controller: string, result: 'done' | 'requeued' | 'error', seconds: number): void
  /** A watch ended and will restart. */
  watchRestarted(resource: string, reason: string): void
}

export interface MailMetrics {
  /** @param result `mailed`, or why no owner was notified */
  mailed(result: 'mailed' | 'refused' | 'no_mail_server' | 'no_owners'): void
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
