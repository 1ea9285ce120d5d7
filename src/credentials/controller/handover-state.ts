/** What a hand-over Secret that is there means for what is stored. */
import type { InputSecretFacts, StoredInputSecret, UsableInputSecret } from './facts.ts'

/** Whether its value is the one that was stored last; one that was made anew under its name is a new one. */
export function isStoredInputSecret(
  found: UsableInputSecret,
  stored: StoredInputSecret | undefined,
): boolean {
  if (stored?.uid !== found.uid) return false
  return stored.resourceVersion === found.resourceVersion || found.isSameValue
}

/** Whether something is handed over that is not stored. */
export function isPendingInputSecret(
  found: InputSecretFacts,
  stored: StoredInputSecret | undefined,
): boolean {
  if (found.state === 'none' || found.state === 'missing' || found.state === 'forbidden') return false
  return found.state !== 'usable' || !isStoredInputSecret(found, stored)
}
