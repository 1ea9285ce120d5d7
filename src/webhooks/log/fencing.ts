import type { ClaimRecord, ReleaseRecord } from '../../apis/outcome-segment.ts'
import { endsAfter } from './crash-series.ts'

/**
 * Which replica drives a shard, according to the log: see "Claims and releases" in README.md. A claim or a release counts only if its
 * writer had read the last claim of another writer.
 */

type Claim = {
  version: number
  /** Of the writer's last claim, if it claimed the shard again. */
  newest: number
  writer: string
  /** The previous owner had released the shard, so nothing was in flight. */
  wasReleasedCleanly: boolean
  isReleased: boolean
  /** Owners that have ended in a row before it, until it has lived for long enough. */
  ends: number
  /** When the writer first claimed the shard, milliseconds since 1970. */
  at: number
}

/**
 * @property version of the segment @property after the version that the writer had read; absent: everything before it
 * @property at when the segment was created, milliseconds since 1970
 */
type ClaimStatement = {
  version: number
  writer: string
  at?: number
  after?: number | undefined
  ends?: number | undefined
}

/** Claims kept for each shard. Who follows the log rarely checks records long after the shard changed hands. */
const MAX_CLAIMS = 8

export class ShardClaims {
  readonly #maxClaims: number
  readonly #claims = new Map<number, Claim[]>()
  /** Shards without a known claim: the last unverifiable one. */
  readonly #unverifiable = new Map<number, Pick<Claim, 'version' | 'writer' | 'ends' | 'at'>>()

  /** @param maxClaims that are kept for each shard */
  constructor(maxClaims = MAX_CLAIMS) {
    this.#maxClaims = maxClaims
  }

  /**
   * Call in log order. @param from before this version, claims may have been deleted before they were read
   * @returns the shards that belong to the writer from there on, if it is a claim
   */
  apply(
    record: ClaimRecord | ReleaseRecord,
    { version, writer, createdAt: at = 0 }: { version: number; writer: string; createdAt?: number },
    from: number,
  ): number[] {
    const { kind, shards, after } = record
    const isVerifiable = after === undefined || after >= from
    if (kind === 'claim' && isVerifiable)
      return this.recordClaim(shards, { version, writer, at, after, ends: record.ends })
    if (kind === 'claim') this.markUnverifiable(shards, { version, writer, at, ends: record.ends })
    else if (isVerifiable && kind === 'release') this.recordRelease(shards, { version, writer, after })
    else if (isVerifiable) this.recordCalm(shards, { version, writer, after })
    return []
  }

  /** Call in log order. @returns the shards that belong to the writer from there on */
  recordClaim(shards: readonly number[], statement: ClaimStatement): number[] {
    const { version, writer, at = 0, after = version, ends = 0 } = statement
    return shards.filter((shard) => {
      const last = this.#last(shard)
      if (last?.writer === writer) renew(last, version, after)
      else if (last && last.newest > after) return false
      else if (this.#isUnverifiable(shard, after)) {
        this.#unverifiable.set(shard, { version, writer, at, ends })
        return false
      } else {
        const wasReleasedCleanly = last?.isReleased ?? false
        this.#add(shard, {
          version,
          newest: version,
          writer,
          wasReleasedCleanly,
          isReleased: false,
          ends,
          at,
        })
      }
      return true
    })
  }

  /**
   * The writer of this claim had read less than this reader has, so only readers from that time know whether another claim comes before
   * it. If no claim is known but the writer's own, every writer counts again, and later claims by writers that had not read this one are
   * unverifiable too.
   */
  markUnverifiable(
    shards: readonly number[],
    { version, writer, at = 0, ends = 0 }: Omit<ClaimStatement, 'after'>,
  ): void {
    for (const shard of shards) {
      const last = this.#last(shard)
      if (last && last.writer !== writer && last.newest === 0) this.#claims.delete(shard)
      if (!this.#claims.has(shard)) this.#unverifiable.set(shard, { version, writer, at, ends })
    }
  }

  /** Call in log order. */
  recordRelease(shards: readonly number[], statement: ClaimStatement): void {
    const { version, writer, after = version } = statement
    for (const shard of shards) {
      const last = this.#last(shard)
      if (this.#isUnverifiable(shard, after)) continue
      // The writer's claim may have been deleted from the log.
      if (!last)
        this.#add(shard, {
          version,
          newest: 0,
          writer,
          wasReleasedCleanly: false,
          isReleased: true,
          ends: 0,
          at: 0,
        })
      else if (last.writer === writer && last.newest <= after) last.isReleased = true
    }
  }

  /** The last owner has lived for so long that ends before it count no more. Call in log order. */
  recordCalm(shards: readonly number[], { version, writer, after = version }: ClaimStatement): void {
    for (const shard of shards) {
      const last = this.#last(shard)
      const unverifiable = this.#unverifiable.get(shard)
      if (last?.writer === writer && last.newest <= after) last.ends = 0
      else if (!last && unverifiable?.writer === writer && unverifiable.version <= after)
        unverifiable.ends = 0
    }
  }

  /** For the next claim of this writer. @param now milliseconds since 1970 */
  endsBefore(shard: number, writer: string, now: number): number {
    const unverifiable = this.#unverifiable.get(shard)
    return endsAfter(
      this.#last(shard) ?? (unverifiable && { ...unverifiable, isReleased: false }),
      writer,
      now,
    )
  }

  /** Owners that have ended in a row before the last one. */
  endsOf(shard: number): number {
    return this.#last(shard)?.ends ?? 0
  }

  /** Whether the last claim to each of them is the writer's. */
  isHeldBy(shards: Iterable<number>, writer: string): boolean {
    for (const shard of shards) if (this.#last(shard)?.writer !== writer) return false
    return true
  }

  /** Whether the previous owner had released the shard before its last claim. */
  wasReleasedCleanly(shard: number): boolean {
    return this.#last(shard)?.wasReleasedCleanly ?? false
  }

  /** The version from which on the last writer owns the shard, renewals aside; 0 if no claim is known. */
  since(shard: number): number {
    return this.#last(shard)?.version ?? 0
  }

  /**
   * Whether another writer had claimed the shard before this record. Without a known claim every writer counts.
   * @param version of the segment with the record
   */
  isFenced(shard: number, version: number, writer: string): boolean {
    const newest = this.#last(shard)
    if (!newest) return false
    // Nearly always the newest claim decides.
    const last =
      newest.version <= version
        ? newest
        : this.#claims.get(shard)?.findLast((claim) => claim.version <= version)
    return last !== undefined && last.writer !== writer
  }

  #last(shard: number): Claim | undefined {
    return this.#claims.get(shard)?.at(-1)
  }

  /** No claim is known, and there may be one that the writer had not read. */
  #isUnverifiable(shard: number, after: number): boolean {
    return !this.#claims.has(shard) && after < (this.#unverifiable.get(shard)?.version ?? 0)
  }

  #add(shard: number, claim: Claim): void {
    this.#unverifiable.delete(shard)
    const claims = this.#claims.get(shard) ?? []
    claims.push(claim)
    if (claims.length > this.#maxClaims) claims.shift()
    this.#claims.set(shard, claims)
  }
}

function renew(last: Claim, version: number, after: number): void {
  // A writer that has not read its own last claim has started nothing since.
  const hasStarted = after >= last.newest
  last.newest = version
  // Without a release, earlier work may still be in flight.
  if (hasStarted || last.isReleased) last.wasReleasedCleanly = last.isReleased
  if (last.isReleased) last.ends = 0
  last.isReleased = false
}
