/** One HTTP attempt of a delivery. */
export type SendRequest = {
  url: string
  /** All headers that Davit sets; the adapter adds only what HTTP itself needs. */
  headers: Record<string, string>
  /** The exact bytes that were signed. */
  body: Uint8Array
  /** Over everything from name resolution to the end of the response body. */
  deadlineMs: number
  /** Asked once connected, just before the first byte: on false nothing is written, and the outcome is `canceled`. */
  isWanted?(): boolean
}

/**
 * Why no usable response came. `blocked` (an address that Davit does not connect to) is told apart for the
 * operator's metrics only: its `error` reads like `refused`.
 */
export type FailureClass =
  | 'refused'
  | 'blocked'
  | 'dns'
  | 'tls'
  | 'timeout'
  | 'reset'
  | 'protocol'
  | 'canceled'

export type SendOutcome =
  /** A whole response (or 16 KB of it) within the deadline. `response`: its first 256 bytes as text. */
  | { kind: 'response'; code: number; latencyMs: number; response: string }
  /** `error` in plain words; `code` where a response head had come before it failed. */
  | { kind: 'failure'; class: FailureClass; error: string; latencyMs: number; code?: number }

export interface WebhookSender {
  /** Never rejects: what goes wrong is an outcome. `signal` gives up on the attempt (`canceled`). */
  send(request: SendRequest, signal?: AbortSignal): Promise<SendOutcome>
}
