import { memoize } from '../../lib/memoize.ts'
import type { Clock } from '../../lib/time.ts'
import { createResolver, type NameServer } from '../../net/dial.ts'
import {
  type ConnectTarget,
  createAddressPolicy,
  targetOf,
  type WebhookNetworks,
} from '../../net/egress-policy.ts'
import { Attempt } from './attempt.ts'
import { ConnectionPool, createDialTarget } from './connections.ts'
import {
  BLOCKED,
  CANCELED,
  failureOf,
  type SendOutcome,
  type SendRequest,
  timeoutOf,
  type WebhookSender,
} from './outcome.ts'

/** Sends webhooks: one POST under one deadline, to vetted addresses only, reading a bounded part of the response. */

export type WebhookSenderOptions = {
  networks: WebhookNetworks
  clock: Pick<Clock, 'monotonic' | 'after'>
  /** PEM of authorities trusted in addition to the known ones. */
  ca?: string | undefined
  /** Replaces DNS. */
  nameServer?: NameServer
  /** Idle connections in all. */
  maxIdleConnections?: number
}

export type ClosableWebhookSender = WebhookSender & {
  /** Cancels running attempts and closes every connection. */
  close(): Promise<void>
}

const MAX_IDLE_CONNECTIONS = 1000
/** A deadline timer this late shows that the process was suspended. */
const SUSPENDED_MS = 500
const READING_MS = 100
/** URLs whose parsed form is kept; endpoints send to the same few again and again. */
const MAX_TARGETS = 4096

/** @throws Error if a network is not a CIDR, or `ca` is not PEM */
export function createWebhookSender(options: WebhookSenderOptions): ClosableWebhookSender {
  const { clock, ca, nameServer: server } = options
  const policy = createAddressPolicy(options.networks)
  const resolve = createResolver({ machineNames: policy.allowsNetworks, server })
  const dialTarget = createDialTarget(policy, resolve, ca)
  const pool = new ConnectionPool(dialTarget, options.maxIdleConnections ?? MAX_IDLE_CONNECTIONS)
  const parse = memoize(MAX_TARGETS, (url) => targetOf(url, policy))
  const active = new ActiveAttempts<Attempt>((attempt) => attempt.fail(CANCELED))
  let closed = false

  return {
    send(request, signal) {
      const decision = parse(request.url)
      if (!decision.ok) return Promise.resolve({ kind: 'failure', ...BLOCKED, latencyMs: 0 })
      if (closed || signal?.aborted) return Promise.resolve({ kind: 'failure', ...CANCELED, latencyMs: 0 })
      return run(request, decision.target, signal)
    },
    async close() {
      closed = true
      active.cancelAll()
      await pool.close()
    },
  }

  function run(
    request: SendRequest,
    target: ConnectTarget,
    signal: AbortSignal | undefined,
  ): Promise<SendOutcome> {
    return new Promise((settled) => {
      const attempt = new Attempt(request, target, pool, clock, (outcome) => {
        stopTimer()
        leave()
        settled(outcome)
      })
      // The client's own timeouts bound neither a body that trickles in nor a flood of interim responses.
      const stopTimer = atDeadline(clock, request.deadlineMs, () =>
        attempt.fail(timeoutOf(request.deadlineMs, attempt.hasHead)),
      )
      const leave = active.add(attempt, signal)
      try {
        attempt.start()
      } catch (error) {
        attempt.fail(failureOf(error, false, request.deadlineMs))
      }
    })
  }
}

/** @returns the call that stops the timer */
function atDeadline(clock: Pick<Clock, 'monotonic' | 'after'>, ms: number, end: () => void): () => void {
  const due = clock.monotonic() + ms
  let stop = clock.after(ms, () => {
    if (clock.monotonic() - due < SUSPENDED_MS) end()
    // A response that arrived in the meantime is in the socket, and is read only after the timers that are due.
    else stop = clock.after(READING_MS, end)
  })
  return () => stop()
}

/**
 * Running attempts and the signals that cancel them, in arrays with one listener per signal. A listener per attempt, or
 * a Set, would be a linked list inside: once one of its links has grown old, V8's minor collections keep everything
 * behind it until the next major one, which dominated the cost at thousands of attempts a second.
 */
export class ActiveAttempts<A> {
  readonly #cancel: (attempt: A) => void
  readonly #attempts: (A | undefined)[] = []
  readonly #signals: (AbortSignal | undefined)[] = []
  readonly #freeSlots: number[] = []
  readonly #observed = new WeakSet<AbortSignal>()

  /** @param cancel may call the function that `add` returned */
  constructor(cancel: (attempt: A) => void) {
    this.#cancel = cancel
  }

  /** @param signal not aborted, and one of few: its listener stays as long as it lives. @returns the call for when the attempt has ended */
  add(attempt: A, signal: AbortSignal | undefined): () => void {
    const slot = this.#freeSlots.pop() ?? this.#attempts.length
    this.#attempts[slot] = attempt
    this.#signals[slot] = signal
    if (signal && !this.#observed.has(signal)) {
      this.#observed.add(signal)
      signal.addEventListener('abort', () => this.#cancelFor(signal), { once: true })
    }
    let left = false
    return () => {
      if (left) return
      left = true
      this.#attempts[slot] = undefined
      this.#signals[slot] = undefined
      this.#freeSlots.push(slot)
    }
  }

  cancelAll(): void {
    for (const attempt of this.#attempts.slice()) if (attempt !== undefined) this.#cancel(attempt)
  }

  #cancelFor(signal: AbortSignal): void {
    const affected = this.#attempts.filter((_, slot) => this.#signals[slot] === signal)
    for (const attempt of affected) if (attempt !== undefined) this.#cancel(attempt)
  }
}
