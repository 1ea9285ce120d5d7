import { fingerprintOf } from './signature.ts'

/** How signing keys are rotated, with an overlap or at once, and expire (interface §4.2 rule 3). */

/** How long the old key still signs after a rotation that does not expire it. */
export const OVERLAP_SECONDS = 86_400
export const MAX_ACTIVE_KEYS = 5

/** Times are ISO 8601. The newest key does not expire. */
export type SigningKey = {
  secret: string
  createdAt: string
  expiresAt?: string | undefined
  /** The request that created it, so that a repeat after a crash creates no second one. */
  request?: string | undefined
  /** Created while `spec.signingSecret` was set: may be written to that Secret. */
  shared?: boolean | undefined
}

/** Keys that sign at `now`, newest first. */
export function activeKeys(keys: readonly SigningKey[], now: number): SigningKey[] {
  return keys.filter((key) => key.expiresAt === undefined || Date.parse(key.expiresAt) > now)
}

export type RollRequest = {
  secret: string
  expireOld: boolean
  request?: string | undefined
  shared: boolean
}

export type RollResult = { kind: 'rolled'; keys: SigningKey[] } | { kind: 'repeated' } | { kind: 'tooMany' }

/**
 * The keys after a rotation: the new one first; earlier ones expire at once or at the end of their own overlap.
 * `repeated` if the request was handled before, `tooMany` if five keys are active.
 */
export function rollKeys(keys: readonly SigningKey[], roll: RollRequest, now: number): RollResult {
  if (roll.request !== undefined && keys.some((key) => key.request === roll.request))
    return { kind: 'repeated' }
  const active = roll.expireOld ? [] : activeKeys(keys, now)
  if (active.length >= MAX_ACTIVE_KEYS) return { kind: 'tooMany' }
  const overlapEnd = new Date(now + OVERLAP_SECONDS * 1000).toISOString()
  const { secret, request, shared } = roll
  const fresh = { secret, createdAt: new Date(now).toISOString(), request, ...(shared && { shared }) }
  return {
    kind: 'rolled',
    keys: [fresh, ...active.map((key) => ({ ...key, expiresAt: key.expiresAt ?? overlapEnd }))],
  }
}

/**
 * The keys without rotations whose secrets were never disclosed: the newest disclosed key no longer expires because of
 * them. An expired key stays expired.
 */
export function withoutUnseen(
  keys: readonly SigningKey[],
  isUnseen: (key: SigningKey) => boolean,
  now: number,
): SigningKey[] {
  if (!keys.some(isUnseen)) return [...keys]
  const [newest, ...older] = activeKeys(keys, now).filter((key) => !isUnseen(key))
  if (!newest) return []
  const { expiresAt: _, ...endless } = newest
  return [endless, ...older]
}

/** For the endpoint's status: never the keys themselves. */
export function keysInStatus(keys: readonly SigningKey[], now: number) {
  return activeKeys(keys, now).map((key) => ({
    fingerprint: fingerprintOf(key.secret),
    createdAt: key.createdAt,
    ...(key.expiresAt === undefined ? {} : { expiresAt: key.expiresAt }),
  }))
}
