/** What a hand-over Secret that is there means for what is stored. */
import type { HandoverFacts, StoredHandover, UsableHandover } from './credential-facts.ts'

/** Whether its value is the one that was stored last; one that was made anew under its name is a new one. */
export function isStoredHandover(found: UsableHandover, stored: StoredHandover | undefined): boolean {
  if (stored?.uid !== found.uid) return false
  return stored.resourceVersion === found.resourceVersion || found.isSameValue
}

/** Whether something is handed over that is not stored. */
export function isPendingHandover(found: HandoverFacts, stored: StoredHandover | undefined): boolean {
  if (found.state === 'none' || found.state === 'missing' || found.state === 'forbidden') return false
  return found.state !== 'usable' || !isStoredHandover(found, stored)
}
