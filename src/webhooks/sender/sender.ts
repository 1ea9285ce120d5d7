/** Sends webhooks: one POST under one deadline, to vetted addresses only, with every answer bounded. */
import type { Clock } from '../../lib/ports-clock.ts'
import { createAddressPolicy, type WebhookNetworks } from '../../net/address-policy.ts'
import { createDial } from '../../net/dial.ts'
import { type ConnectTarget, type TargetDecision, targetOf } from '../../net/egress-policy.ts'
import { createResolver, type NameServer } from '../../net/resolver.ts'
import { ActiveAttempts } from './active-attempts.ts'
import { Attempt, type AttemptTools } from './attempt.ts'
import { openConnection } from './connection.ts'
import { createConnectionPool } from './connection-pool.ts'
import { BLOCKED, CANCELED, failureOf, timeoutOf } from './outcome.ts'
import type { SendOutcome, SendRequest, WebhookSender } from './webhook-sender.ts'

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
