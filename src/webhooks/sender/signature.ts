/** The signing keys of an endpoint: made, rolled with an overlap or at once, and expired (interface §4.2 rule 3). */
import { fingerprintOf } from './domain-signature.ts'

/** How long the old key goes on signing after a roll that does not expire it. */
export const OVERLAP_SECONDS = 86_400
/** Keys that may sign at the same time. */
export const MAX_ACTIVE_KEYS = 5

/** Times are ISO 8601. The newest key has no end. */
export type SigningKey = {
  secret: string
  createdAt: string
  expiresAt?: string | undefined
  /** The roll request that made it, so that a repeat after a crash makes no second one. */
  request?: string | undefined
  /** Made while the owner had `spec.signingSecret` set: may be shown there. */
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
 * The keys after a roll: the new one first; earlier ones end at once or at the end of their own overlap.
 * `repeated` when the request was answered before, `tooMany` when five keys are in force.
 */
export function rollKeys(keys: readonly SigningKey[], roll: RollRequest, now: number): RollResult {
  if (roll.request !== undefined && keys.some((key) => key.request === roll.request))
    return { kind: 'repeated' }
  const active = roll.expireOld ? [] : activeKeys(keys, now)
  if (active.length >= MAX_ACTIVE_KEYS) return { kind: 'tooMany' }
  const overlapEnd = new Date(now + OVERLAP_SECONDS * 1000).toISOString()
  const fresh: SigningKey = {
    secret: roll.secret,
    createdAt: new Date(now).toISOString(),
    request: roll.request,
    ...(roll.shared ? { shared: true } : {}),
  }
  return {
    kind: 'rolled',
    keys: [fresh, ...active.map((key) => ({ ...key, expiresAt: key.expiresAt ?? overlapEnd }))],
  }
}

/**
 * The keys as they would be without rolls whose secrets nobody has been shown: the newest of those that
 * somebody has gets no end from such a roll. One that has ended stays ended.
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

/** What the endpoint's status shows of its keys: never the keys themselves. */
export function keysInStatus(keys: readonly SigningKey[], now: number) {
  return activeKeys(keys, now).map((key) => ({
    fingerprint: fingerprintOf(key.secret),
    createdAt: key.createdAt,
    ...(key.expiresAt === undefined ? {} : { expiresAt: key.expiresAt }),
  }))
}
