import { AwsError } from './aws-error.ts'
import type { Answer } from './protocol.ts'
import type { SignedRequest } from './sigv4.ts'
import type { TrailEntry } from './trail.ts'

/**
 * What happens to a call: AWS rejects it before it has an effect, the connection breaks before or after the effect, it is only
 * slow, or the effect happens and something other than AWS answers.
 */
export type FaultEffect =
  | 'cut-after'
  | 'cut-before'
  | 'throttle'
  | 'unavailable'
  | { code: string; message?: string | Echo; status?: number }
  | { latencyMs: number }
  | { garbage: (request: SignedRequest) => Answer }

/** A message made from the request, including values of parameters; the trail omits it. */
export type Echo = (request: SignedRequest) => string

export type FaultTarget = {
  /** `ssm:PutParameter`, `ssm:*` or `*`. */
  operation: string
  /** Only calls about this account; for AssumeRole, the role's. */
  account?: string
  /** Only calls that match; the entry has no result yet. */
  where?: (call: TrailEntry) => boolean
}

export type Fault = FaultTarget & {
  effect: FaultEffect
  /** How many calls; absent: one, Infinity: all. */
  times?: number
}

/** Reads that see an older state. */
export type Lag = FaultTarget & { ms: number }

/** A scripted fault; `remove` ends it, `used` counts how often it has happened. */
export type Scripted = { remove(): void; readonly used: number }

type Planned = { fault: Fault; left: number; used: number }

const MAX_PLANNED = 10_000

/** The faults that a test scripts. A call gets the first fault that matches and is not used up. */
export class Script {
  readonly #faults = new Set<Planned>()
  readonly #lags = new Set<Lag>()
  readonly #shortPages = new Set<FaultTarget>()

  add(fault: Fault): Scripted {
    if (this.#faults.size >= MAX_PLANNED) throw new RangeError(`more than ${MAX_PLANNED} faults`)
    const planned: Planned = { fault, left: fault.times ?? 1, used: 0 }
    this.#faults.add(planned)
    return {
      remove: () => this.#faults.delete(planned),
      get used() {
        return planned.used
      },
    }
  }

  /** Makes reads of these operations lag behind by `ms` until it is removed. */
  lag(lag: Lag): { remove(): void } {
    this.#lags.add(lag)
    return { remove: () => this.#lags.delete(lag) }
  }

  /** Makes pages of these operations alternately empty and half full until it is removed, which AWS may do at any time. */
  shortenPages(target: FaultTarget): { remove(): void } {
    this.#shortPages.add(target)
    return { remove: () => this.#shortPages.delete(target) }
  }

  shortens(call: TrailEntry): boolean {
    return [...this.#shortPages].some((target) => isTarget(target, call))
  }

  /** Removes all faults. */
  clear(): void {
    this.#faults.clear()
    this.#lags.clear()
    this.#shortPages.clear()
  }

  /** Collects the latencies and the one final fault of a call. */
  take(call: TrailEntry): {
    latencyMs: number
    end: Exclude<FaultEffect, { latencyMs: number }> | undefined
  } {
    let latencyMs = 0
    for (const planned of this.#faults) {
      const { effect } = planned.fault
      if (planned.left <= 0 || !isTarget(planned.fault, call)) continue
      planned.left -= 1
      planned.used += 1
      if (planned.left <= 0) this.#faults.delete(planned)
      if (typeof effect === 'string' || !('latencyMs' in effect)) return { latencyMs, end: effect }
      latencyMs += effect.latencyMs
    }
    return { latencyMs, end: undefined }
  }

  lagOf(call: TrailEntry): number {
    return Math.max(0, ...[...this.#lags].filter((lag) => isTarget(lag, call)).map(({ ms }) => ms))
  }
}

/** The error with which a call is rejected. */
export function scriptedError(
  effect: Exclude<FaultEffect, { latencyMs: number }>,
  request: SignedRequest,
): AwsError | undefined {
  if (effect === 'throttle') return AwsError.of('throttled', 'Rate exceeded')
  if (effect === 'unavailable')
    return AwsError.of('unavailable', 'The service is unavailable. Please try again.')
  if (typeof effect === 'string' || 'garbage' in effect) return undefined
  const { code, message = '', status } = effect
  return typeof message === 'string'
    ? AwsError.coded(code, message, status)
    : AwsError.echo(code, message(request), status)
}

function isTarget({ operation, account, where }: FaultTarget, call: TrailEntry): boolean {
  if (!['*', `${call.service}:*`, `${call.service}:${call.operation}`].includes(operation)) return false
  return (account === undefined || account === call.account) && (where?.(call) ?? true)
}
