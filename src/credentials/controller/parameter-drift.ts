/**
 * Whether somebody else changed a parameter, without reading it: a listing shows its version, type, key and who wrote last.
 * Writing anew the value that somebody else wrote over would need the secret, which Davit does not have.
 */
import type { StoredParameter } from '../../apis/registry-credential.ts'
import { isOtherKey } from '../aws/names.ts'

/** A parameter as a listing shows it. */
export type ListedEntry = {
  name: string
  version: number
  type: string
  kmsKeyId?: string | undefined
  /** ARN of who wrote last. */
  modifiedBy: string
}

export type ParameterDrift =
  | { kind: 'none' }
  /** Davit wrote this version and ended before it could say so. */
  | { kind: 'adopt'; version: number }
  | { kind: 'missing' }
  /** Newer versions beside ours, which still is the one that boxes read. */
  | { kind: 'changed'; by: string; version: number }
  /** Made anew by somebody else: our version is gone. */
  | { kind: 'replaced'; by: string; version: number; type: string }
  | { kind: 'key'; by: string; key: string }

export type DriftView = {
  stored: StoredParameter
  /** Absent: the listing does not have it. */
  listed?: ListedEntry | undefined
  /** Since when ours is there, and when was listed; milliseconds since 1970. */
  storedAt: number
  listedAt: number
  /** ARNs of the sessions of this organization: of the role that wrote it, and of the one that holds now. */
  ownSessions: readonly string[]
}

/** Listings may be older than the write before them. */
const LAG_MS = 60_000

export function parameterDrift({
  stored,
  listed,
  storedAt,
  listedAt,
  ownSessions,
}: DriftView): ParameterDrift {
  const lags = listedAt - storedAt < LAG_MS
  if (listed === undefined) return lags ? { kind: 'none' } : { kind: 'missing' }
  const { version, type, modifiedBy: by } = listed
  const ours = ownSessions.includes(by)
  if (type !== 'SecureString') return { kind: 'replaced', by, version, type }
  if (ours && version > stored.version) return { kind: 'adopt', version }
  if (!ours && version > stored.version) return { kind: 'changed', by, version }
  if (!ours) return { kind: 'replaced', by, version, type }
  // An older version of our own is a listing that lags.
  if (version === stored.version && isOtherKey(stored.kmsKeyId, listed.kmsKeyId))
    return { kind: 'key', by, key: listed.kmsKeyId ?? '' }
  return { kind: 'none' }
}
