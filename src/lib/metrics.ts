/**
 * What is counted, as facts; which metric they feed is the adapter's business. Label values are from small
 * closed sets: no URL, id, namespace or name. The one exception are endpoints that fail, of which the worst are named.
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
  /** One attempt ended; `seconds` is its duration. */
  attempt(result: AttemptClass, seconds: number): void
  /** A delivery came to its end. `secondsSinceAccepted` from acceptance to the end. */
  finished(
    state: 'pending' | 'retrying' | 'succeeded' | 'exhausted' | 'canceled',
    secondsSinceAccepted: number,
  ): void
  /** A first attempt started so long after the event was accepted. */
  started(secondsSinceAccepted: number): void
}

export interface LogMetrics {
  /** A segment was written: events and deliveries in it, and how long the write took. */
  segment(kind: 'delivery' | 'outcome', size: number, seconds: number): void
}

export interface ApiCallMetrics {
  /** One API call ended. `code` is the HTTP status, or "error" without one. */
  apiCall(verb: string, code: string, seconds: number): void
}

export interface CloudMetrics {
  /**
   * One attempt of a call to the cloud ended. `operation` is as `ssm:PutParameter`, `code` is `ok`, a code that the adapter
   * knows, or `other`.
   */
  cloudCall(operation: string, code: string, seconds: number): void
  /** An attempt is followed by another one, because of `code`. */
  cloudRetry(operation: string, code: string): void
  /** A call had its turn, or gave up waiting for it. */
  cloudTurn(operation: string, seconds: number): void
}

export interface CredentialMetrics {
  /** A secret was stored: a parameter was made, or a version written. */
  secretStored(how: 'created' | 'replaced'): void
  /**
   * A parameter was to be removed. `forgotten`: one that could not be, when the list of orphans was full; `failed`: in a request
   * by REST, after which the controller goes on with it.
   */
  parameterRemoved(outcome: 'deleted' | 'not-found' | 'orphaned' | 'forgotten' | 'failed'): void
}

export interface RuntimeMetrics {
  /** One pass of a reconciler. */
  reconciled(controller: string, result: 'done' | 'requeued' | 'error' | 'terminal', seconds: number): void
  /** A watch ended and will start again. */
  watchRestarted(resource: string, reason: string): void
}

export interface MailMetrics {
  /** Owners were to be told by e-mail. @param result `mailed`, or why nobody was told */
  mailed(result: 'mailed' | 'refused' | 'no-mail-server' | 'no-owners'): void
}

/** One series of a metric: the values of its labels, in their order, and its own. */
export type GaugeRow = { labels: readonly string[]; value: number }

/** A value that is read when Prometheus scrapes. */
export interface GaugeRegistry {
  gauge(name: string, help: string, read: () => number | Record<string, number>, label?: string): void
  /** One with several labels; of more rows than 100 the first are shown. */
  gaugeRows(name: string, help: string, labels: readonly string[], read: () => readonly GaugeRow[]): void
}

/** Of a process that ends with one answer, whose figures nobody comes for. */
export const NOOP_METRICS: CloudMetrics = { cloudCall() {}, cloudRetry() {}, cloudTurn() {} }
