/**
 * Attempts that were repeated because their process was ended or suspended, although it had had time to store their outcome:
 * outcomes are stored within milliseconds, and even on a busy machine a second is enough unless something keeps the process from
 * the store.
 */
import { keyOf, repeatsAmong } from '../../support/verdict.ts'
import type { SeenReception } from '../receivers.ts'
import { explanationOf, wasKeptFromStore } from './explained.ts'
import type { RecordKind } from './faults.ts'
import type { FleetEvidence } from './fleet-verdict.ts'
import { busyness } from './stall-watch.ts'

/** `ms`: from the answer to the end of the process. */
export type OldRepeat = { kind: RecordKind; delivery: string; ms: number }

const STORED_MS = 1000
const ENDS: ReadonlySet<RecordKind> = new Set(['kill controller', 'suspend controller'])

export function oldRepeatsAmong(
  attempts: readonly SeenReception[],
  { faults, silences, loads }: Pick<FleetEvidence, 'faults' | 'silences' | 'loads'>,
): OldRepeat[] {
  return repeatsAmong(attempts).flatMap(({ earlier, later }) => {
    const fault = explanationOf(earlier, later, { faults, silences })
    if (!fault || !ENDS.has(fault.kind) || wasKeptFromStore(earlier, fault.from, faults)) return []
    const ms = fault.from - earlier.endedAt
    const allowed = STORED_MS * busyness([earlier.endedAt, fault.from], loads)
    return ms > allowed ? [{ kind: fault.kind, delivery: keyOf(earlier), ms }] : []
  })
}
