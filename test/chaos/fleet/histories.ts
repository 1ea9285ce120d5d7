/** Describes the history of deliveries, attempt by attempt, for debugging. */
import { keyOf } from '../../support/verdict.ts'
import type { SeenReception } from '../receivers.ts'
import type { FaultRecord } from './fault-work.ts'
import type { FleetFindings } from './fleet-findings.ts'
import { type LogEvidence, logLinesOf, unreportedIn } from './log-lines.ts'
import { STILL_PENDING } from './rest.ts'

const MOST = 40

/** Only deliveries with a violation. Times in seconds, like those of the faults. */
export function historiesOf(
  { verdict, unshown, wrong }: Pick<FleetFindings, 'verdict' | 'unshown' | 'wrong'>,
  receptions: readonly SeenReception[],
  evidence: LogEvidence,
): string[] {
  const { lost, unknown, beyond, inversions, gaps, waits } = verdict
  const repeated = verdict.duplicates.filter(({ explained }) => !explained)
  const overlapping = verdict.overlaps.flatMap(({ endpoint, ids }) => ids.map((id) => ({ endpoint, id })))
  const orders = [...inversions, ...gaps, ...overlapping]
  const all = [...repeated, ...orders, ...unknown, ...beyond, ...waits, ...lost, ...unshown]
  const unreported = wrong.includes(STILL_PENDING) ? unreportedIn(evidence) : []
  const keys = [...new Set([...all.map(keyOf), ...unreported])].slice(0, MOST)
  const logLines = logLinesOf(evidence, keys)
  return keys.flatMap((key) => {
    const attempts = receptions.filter((one) => keyOf(one) === key)
    return [`${key}: ${attempts.map(attemptText).join(', ')}`, ...(logLines.get(key) ?? [])]
  })
}

export function faultLines(faults: readonly FaultRecord[]): string[] {
  return faults.map(
    ({ kind, from, to, readyAt, lives }) =>
      `${kind}: ${seconds(from)} to ${seconds(to)}, ready ${seconds(readyAt)}, lives ${lives}`,
  )
}

function attemptText({ run, at, endedAt, answer, isStale }: SeenReception): string {
  return `life ${run} ${seconds(at)}-${seconds(endedAt)} ${isStale ? 'stale' : answer}`
}

function seconds(ms: number): string {
  return (ms / 1000).toFixed(3)
}
