import type { Clock } from '../../lib/clock.ts'
import { createDial, createResolver, type NameServer } from '../../net/dial.ts'
import {
  type ConnectTarget,
  createAddressPolicy,
  type TargetDecision,
  targetOf,
  type WebhookNetworks,
} from '../../net/egress-policy.ts'
import { Attempt, type AttemptTools, type Connection, openConnection } from './attempt.ts'
import {
  BLOCKED,
  CANCELED,
  failureOf,
  type SendOutcome,
  type SendRequest,
  timeoutOf,
  type WebhookSender,
} from './outcome.ts'

/**
 * Attempts under way, and the signals that give up on them: one listener for each signal, and places in arrays. Listeners of a signal
 * are a linked list, and the tables that a Set outgrows are one too. Once a link of such a list has grown old, V8's quick collections keep
 * whatever came behind it, with all that hangs on it, until the next full one: at thousands of attempts a second that was
 * most of what they did.
 */
export class ActiveAttempts<A> {
  readonly #giveUp: (attempt: A) => void
  readonly #attempts: (A | undefined)[] = []
  readonly #signals: (AbortSignal | undefined)[] = []
  readonly #free: number[] = []
  readonly #heard = new WeakSet<AbortSignal>()

  /** @param giveUp may call what `add` gave */
  constructor(giveUp: (attempt: A) => void) {
    this.#giveUp = giveUp
  }

  /** @param signal not aborted, and one of few: it is heard for as long as it lives. @returns to be called when the attempt has ended */
  add(attempt: A, signal: AbortSignal | undefined): () => void {
    const place = this.#free.pop() ?? this.#attempts.length
    this.#attempts[place] = attempt
    this.#signals[place] = signal
    if (signal) this.#hear(signal)
    let left = false
    return () => {
      if (left) return
      left = true
      this.#attempts[place] = undefined
      this.#signals[place] = undefined
      this.#free.push(place)
    }
  }

  cancelAll(): void {
    for (const attempt of this.#attempts.slice()) if (attempt !== undefined) this.#giveUp(attempt)
  }

  #hear(signal: AbortSignal): void {
    if (this.#heard.has(signal)) return
    this.#heard.add(signal)
    signal.addEventListener('abort', () => this.#giveUpOn(signal), { once: true })
  }

  #giveUpOn(signal: AbortSignal): void {
    const given = this.#attempts.filter((_, place) => this.#signals[place] === signal)
    for (const attempt of given) if (attempt !== undefined) this.#giveUp(attempt)
  }
}

/**
 * Idle connections, kept for the next exchange with the same origin. Each attempt has a connection of its own
 * while it lasts, so a path that hangs holds up no other path of its host; attempts at a time are bounded by
 * the caller.
 */

export type ConnectionPool = {
  /** An idle connection to the target's origin, the one used last, or a new one. */
  take(target: ConnectTarget): Connection
  /** Gives a connection back after a complete exchange. */
  release(connection: Connection): void
  /** Ends the idle connections. Those given back later are ended too. */
  close(): Promise<void>
}

/** @param maxIdle connections kept in all; beyond it the one that is idle longest ends */
function createConnectionPool(open: (target: ConnectTarget) => Connection, maxIdle: number): ConnectionPool {
  const byOrigin = new Map<string, Connection[]>()
  // In the order in which they became idle.
  const idle = new Set<Connection>()
  let closed = false

  function forget(connection: Connection): void {
    if (!idle.delete(connection)) return
    const peers = byOrigin.get(connection.origin)
    if (!peers) return
    peers.splice(peers.indexOf(connection), 1)
    if (peers.length === 0) byOrigin.delete(connection.origin)
  }

  function discard(connection: Connection): Promise<void> {
    forget(connection)
    return connection.destroy()
  }

  function openFor(target: ConnectTarget): Connection {
    const connection = open(target)
    // The receiver closed it, or it was idle for too long.
    connection.client.on('disconnect', () => {
      if (idle.has(connection)) void discard(connection)
    })
    return connection
  }

  return {
    take(target) {
      const connection = byOrigin.get(target.origin)?.at(-1)
      if (!connection) return openFor(target)
      forget(connection)
      return connection
    },
    release(connection) {
      if (closed || connection.socket?.destroyed !== false) {
        void connection.destroy()
        return
      }
      idle.add(connection)
      const peers = byOrigin.get(connection.origin)
      if (peers) peers.push(connection)
      else byOrigin.set(connection.origin, [connection])
      const [oldest] = idle
      if (idle.size > maxIdle && oldest) void discard(oldest)
    },
    async close() {
      closed = true
      await Promise.all([...idle].map(discard))
    },
  }
}

/** Sends webhooks: one POST under one deadline, to vetted addresses only, with every answer bounded. */

export type WebhookSenderOptions = {
  networks: WebhookNetworks
  clock: Pick<Clock, 'monotonic' | 'after'>
  /** PEM of authorities that are trusted besides the known ones. */
  ca?: string | undefined
  /** Replaces DNS. */
  nameServer?: NameServer
  /** Connections kept for the next attempt, in all. */
  maxIdleConnections?: number
}

export type ClosableWebhookSender = WebhookSender & {
  /** Cancels what is under way and ends every connection. */
  close(): Promise<void>
}

const MAX_IDLE_CONNECTIONS = 1000
/** A timer that is so late tells that the process stood still. */
const STOOD_STILL_MS = 500
const READING_MS = 100
/** URLs whose parsed form is kept; endpoints send to the same few again and again. */
const MAX_TARGETS = 4096

/** @throws Error when a network is no CIDR, or `ca` no PEM */
export function createWebhookSender(options: WebhookSenderOptions): ClosableWebhookSender {
  const { clock } = options
  const policy = createAddressPolicy(options.networks)
  const resolve = createResolver({
    machineNames: policy.allowsNetworks,
    ...(options.nameServer ? { server: options.nameServer } : {}),
  })
  const dial = createDial({ policy, resolve, ca: options.ca })
  const open = (target: ConnectTarget) => openConnection(target, dial)
  const pool = createConnectionPool(open, options.maxIdleConnections ?? MAX_IDLE_CONNECTIONS)
  const tools: AttemptTools = {
    take: pool.take,
    open,
    release: pool.release,
    monotonic: () => clock.monotonic(),
  }
  const parse = cached((url) => targetOf(url, policy))
  const active = new ActiveAttempts<Attempt>((attempt) => attempt.fail(CANCELED))
  let closed = false

  return {
    send(request, signal) {
      const verdict = parse(request.url)
      if (!verdict.ok) return Promise.resolve({ kind: 'failure', ...BLOCKED, latencyMs: 0 })
      if (closed || signal?.aborted) return Promise.resolve({ kind: 'failure', ...CANCELED, latencyMs: 0 })
      return run(request, verdict.target, signal)
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
      const attempt = new Attempt(request, target, tools, (outcome) => {
        stop()
        leave()
        settled(outcome)
      })
      // The client's own timeouts bound neither a body in drops nor a flood of interim responses.
      const stop = atDeadline(clock, request.deadlineMs, () =>
        attempt.fail(timeoutOf(request.deadlineMs, attempt.answering)),
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

/** @returns the call that ends it */
function atDeadline(clock: Pick<Clock, 'monotonic' | 'after'>, ms: number, end: () => void): () => void {
  const due = clock.monotonic() + ms
  let stop = clock.after(ms, () => {
    if (clock.monotonic() - due < STOOD_STILL_MS) end()
    // What came meanwhile lies in the socket, and is read only after the timers that are due.
    else stop = clock.after(READING_MS, end)
  })
  return () => stop()
}

function cached(parse: (url: string) => TargetDecision): (url: string) => TargetDecision {
  const known = new Map<string, TargetDecision>()
  return (url) => {
    const seen = known.get(url)
    if (seen) return seen
    const verdict = parse(url)
    // Starting over is rare and costs microseconds; an order of use would cost on every attempt.
    if (known.size >= MAX_TARGETS) known.clear()
    known.set(url, verdict)
    return verdict
  }
}
