/** Measures how long due attempts were delayed by a fault, at endpoints with healthy receivers. */
import { keyOf } from '../../support/verdict.ts'
import type { FaultRecord } from './fault-work.ts'
import type { RecordKind } from './faults.ts'
import type { FleetEvidence } from './fleet-verdict.ts'

/** `alone`: without other faults meanwhile. */
export type Gap = { kind: RecordKind; ms: number; alone: boolean }

/** From when an attempt was due until it was made. */
type Due = { from: number; to: number }

/** Outcomes that could not be stored are reported within this time after everything is ready. */
const AFTER_MS = 2000
const LONGEST_MS = 120_000

export function gapsOf(evidence: FleetEvidence): Gap[] {
  const dues = duesOf(evidence)
  return evidence.faults.map((fault) => {
    const [from, to] = windowOf(fault)
    const within = dues.filter((due) => due.from <= to && due.to >= from)
    const others = evidence.faults.filter((one) => one !== fault && overlaps(windowOf(one), [from, to]))
    return {
      kind: fault.kind,
      ms: Math.max(0, ...within.map((due) => due.to - Math.max(due.from, from))),
      alone: others.length === 0,
    }
  })
}

function windowOf({ from, to, readyAt }: FaultRecord): [number, number] {
  return [from, Math.min(Math.max(readyAt, to), to + LONGEST_MS) + AFTER_MS]
}

function overlaps(one: [number, number], other: [number, number]): boolean {
  return one[0] <= other[1] && other[0] <= one[1]
}

function duesOf({ log, receptions, endpoints, published }: FleetEvidence): Due[] {
  const accepted = new Map(published.map(({ id, answeredAt }) => [id, answeredAt]))
  const firsts = new Map<string, { at: number; endedAt: number }>()
  for (const reception of receptions)
    if (!firsts.has(keyOf(reception))) firsts.set(keyOf(reception), reception)
  return endpoints
    .filter(({ steady }) => steady)
    .flatMap(({ name, ordered }) => {
      let before = 0
      return log.deliveries
        .filter(({ endpoint }) => endpoint === name)
        .flatMap((delivery) => {
          const first = firsts.get(keyOf(delivery))
          const acceptedAt = accepted.get(delivery.id)
          if (!first || acceptedAt === undefined) return []
          const from = Math.max(acceptedAt, ordered ? before : 0)
          before = first.endedAt
          return first.at > from ? [{ from, to: first.at }] : []
        })
    })
}
