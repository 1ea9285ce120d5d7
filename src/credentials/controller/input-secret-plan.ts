/**
 * What Davit may do with an input Secret: whether its value is stored already, and whether the Secret is deleted once it is. The plan
 * (plan.ts) decides the rest.
 */
import { type KeptInputSecret, RETAIN_ANNOTATION } from '../../apis/registry-credential.ts'

/** The Secret that `spec.secretRef` names. */
export type InputSecretFacts =
  | { state: 'none' | 'missing' | 'no-key' }
  /** Davit has no right to Secrets here. */
  | { state: 'forbidden' }
  | { state: 'wrong-type'; type: string }
  /** Its value cannot be stored; the problem says why without quoting it. */
  | { state: 'problem'; problem: string }
  | UsableInputSecret

/** `mark` stands for this version's value (input-secret.ts). `isSameValue`: it is the value that status.handover records. */
export type UsableInputSecret = {
  state: 'usable'
  uid: string
  resourceVersion: string
  /** Milliseconds since 1970; 0 if that is unknown. */
  createdAt: number
  retained: boolean
  mark: string
  isSameValue: boolean
  /** Kind and name of the object whose controller owns the Secret, which would create it again. */
  owner?: string | undefined
  /** The field manager that wrote the value. */
  writer?: string | undefined
}

/**
 * One version of an input Secret; what status.handover records. A version of Davit before marks of every Secret recorded none.
 * `recordedAt`: when it was recorded, which is just before Davit deletes it. `returns`: how often the Secret was created again after Davit
 * had deleted it, with this value, or at once with another one.
 */
export type InputSecretRef = {
  uid: string
  resourceVersion: string
  mark?: string | undefined
  recordedAt?: string | undefined
  returns?: number | undefined
}

/** Whether its value is the one that was stored last. Who created it, and how often, does not matter. */
export function isStoredInputSecret(found: UsableInputSecret, stored: InputSecretRef | undefined): boolean {
  if (stored === undefined) return false
  if (stored.uid === found.uid && stored.resourceVersion === found.resourceVersion) return true
  return found.isSameValue
}

/** Whether the owner has provided a value that is not stored. */
export function isPendingInputSecret(found: InputSecretFacts, stored: InputSecretRef | undefined): boolean {
  if (found.state === 'none' || found.state === 'missing' || found.state === 'forbidden') return false
  return found.state !== 'usable' || !isStoredInputSecret(found, stored)
}

/** `reason` is for the log. */
export type StoredInputSecretAction = {
  step: 'delete-input-secret' | 'record-input-secret'
  inputSecret: InputSecretRef
  reason: string
}

/** What remains to be done with a Secret whose value is stored; undefined: nothing. */
export function planStoredInputSecret(
  found: UsableInputSecret,
  stored: InputSecretRef | undefined,
  now: number,
): StoredInputSecretAction | undefined {
  const { uid, resourceVersion, mark, retained } = found
  const inputSecret = refOf(found, returnsOf(found, stored), now)
  const isOther = stored?.uid !== uid
  // Recorded before it is deleted, so that the returns of a Secret are counted.
  if (isOther && !retained)
    return { step: 'record-input-secret', inputSecret, reason: 'it was created again with its value' }
  if (!isKept(found, stored))
    return { step: 'delete-input-secret', inputSecret, reason: 'its value is stored' }
  const isRecorded =
    !isOther &&
    stored.resourceVersion === resourceVersion &&
    stored.mark === mark &&
    stored.returns === inputSecret.returns
  if (isRecorded) return undefined
  return { step: 'record-input-secret', inputSecret, reason: 'something other than its value changed' }
}

/**
 * After so many returns in a row Davit keeps a Secret: something creates it again whenever it is gone, and to delete it each time would
 * never end. One or two are a person who provides the same value again.
 */
const MAX_RETURNS = 3

function returnsOf(found: UsableInputSecret, stored: InputSecretRef | undefined): number {
  // Davit does not delete it.
  if (isForAll(found)) return 0
  const before = stored?.returns ?? 0
  return stored?.uid === found.uid ? before : Math.min(before + 1, MAX_RETURNS)
}

/** A Secret that is created within this time after Davit deleted the one before was hardly created by a person who rotates the value. */
const AT_ONCE_MS = 10 * 60_000

/** Of a value that is not stored yet. */
function returnsWithNewValue(found: UsableInputSecret, stored: InputSecretRef | undefined): number {
  if (isForAll(found) || stored === undefined) return 0
  const before = stored.returns ?? 0
  // Changed in place: one more is deleted, and kept if it comes back at once.
  if (stored.uid === found.uid) return Math.min(before, MAX_RETURNS - 1)
  const sinceMs = found.createdAt - Date.parse(stored.recordedAt ?? '')
  // A time of creation has whole seconds. One that was there before is another Secret, which the spec names now.
  const isAtOnce = sinceMs >= -1000 && sinceMs <= AT_ONCE_MS
  return isAtOnce ? Math.min(before + 1, MAX_RETURNS) : 0
}

/** What to record once the value of the Secret, which is another one, is stored. */
export function inputSecretToStore(
  found: UsableInputSecret,
  stored: InputSecretRef | undefined,
  now: number,
): InputSecretRef {
  return refOf(found, returnsWithNewValue(found, stored), now)
}

function refOf({ uid, resourceVersion, mark }: UsableInputSecret, returns: number, now: number) {
  const recordedAt = new Date(now).toISOString()
  return { uid, resourceVersion, mark, recordedAt, ...(returns === 0 ? {} : { returns }) }
}

/** Whether Davit leaves a Secret in the cluster whose value is stored. */
export function isKept(found: UsableInputSecret, stored: InputSecretRef | undefined): boolean {
  return isForAll(found) || returnsOf(found, stored) >= MAX_RETURNS
}

/** Whether Davit keeps it from the start, so that several credentials can use it. */
export function isForAll({ retained, owner }: UsableInputSecret): boolean {
  return retained || owner !== undefined
}

const RETAIN = `${RETAIN_ANNOTATION}: "true"`

/** Why Davit keeps a Secret although its owner did not ask Davit to retain it, and what to do about it. @param name of the Secret */
export function keptInputSecret(
  found: InputSecretFacts,
  stored: InputSecretRef | undefined,
  name: string,
): { reason: KeptInputSecret; message: string } | undefined {
  if (found.state !== 'usable' || found.retained) return undefined
  const { owner, writer } = found
  if (owner !== undefined) {
    const message = `The Secret ${name} is owned by ${owner}, which would recreate it. Davit therefore does not delete it, and its value stays in the cluster. In ${owner}, set the annotation ${RETAIN} on the Secret.`
    return { reason: 'OwnedByController', message }
  }
  if (stored?.uid !== found.uid || (stored.returns ?? 0) < MAX_RETURNS) return undefined
  const by = writer === undefined ? '' : ` It was last written by the field manager ${writer}.`
  const message = `The Secret ${name} was recreated ${MAX_RETURNS} times after Davit stored its value and deleted it. Davit therefore no longer deletes it.${by} To keep the Secret, set the annotation ${RETAIN} where it is defined. Otherwise, stop whatever recreates it, then delete the Secret.`
  return { reason: 'Recreated', message }
}
