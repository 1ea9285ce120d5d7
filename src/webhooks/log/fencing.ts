import type { ClaimRecord, ReleaseRecord } from '../../apis/outcome-segment.ts'

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
}

/** @property version of the segment @property after the version that the writer had read; absent: everything before it */
type ClaimStatement = { version: number; writer: string; after?: number | undefined }

/** Claims kept for each shard. Who follows the log rarely checks records long after the shard changed hands. */
const MAX_CLAIMS = 8

export class ShardClaims {
  readonly #maxClaims: number
  readonly #claims = new Map<number, Claim[]>()
  /** Shards without a known claim: the version of the last unverifiable one. */
  readonly #unverifiable = new Map<number, number>()

  /** @param maxClaims that are kept for each shard */
  constructor(maxClaims = MAX_CLAIMS) {
    this.#maxClaims = maxClaims
  }

  /**
   * Call in log order. @param from before this version, claims may have been deleted before they were read
   * @returns the shards that belong to the writer from there on, if it is a claim
   */
  apply(
    { kind, shards, after }: ClaimRecord | ReleaseRecord,
    { version, writer }: Pick<ClaimStatement, 'version' | 'writer'>,
    from: number,
  ): number[] {
    const isVerifiable = after === undefined || after >= from
    if (kind === 'claim' && isVerifiable) return this.recordClaim(shards, { version, writer, after })
    if (kind === 'claim') this.markUnverifiable(shards, { version, writer })
    else if (isVerifiable) this.recordRelease(shards, { version, writer, after })
    return []
  }

  /** Call in log order. @returns the shards that belong to the writer from there on */
  recordClaim(shards: readonly number[], statement: ClaimStatement): number[] {
    const { version, writer, after = version } = statement
    return shards.filter((shard) => {
      const last = this.#last(shard)
      if (last?.writer === writer) renew(last, version, after)
      else if (last && last.newest > after) return false
      else if (this.#isUnverifiable(shard, after)) {
        this.#unverifiable.set(shard, version)
        return false
      } else {
        const wasReleasedCleanly = last?.isReleased ?? false
        this.#add(shard, { version, newest: version, writer, wasReleasedCleanly, isReleased: false })
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
    { version, writer }: Pick<ClaimStatement, 'version' | 'writer'>,
  ): void {
    for (const shard of shards) {
      const last = this.#last(shard)
      if (last && last.writer !== writer && last.newest === 0) this.#claims.delete(shard)
      if (!this.#claims.has(shard)) this.#unverifiable.set(shard, version)
    }
  }

  /** Call in log order. */
  recordRelease(shards: readonly number[], statement: ClaimStatement): void {
    const { version, writer, after = version } = statement
    for (const shard of shards) {
      const last = this.#last(shard)
      if (this.#isUnverifiable(shard, after)) continue
      // The writer's claim may have been deleted from the log.
      if (!last) this.#add(shard, { version, newest: 0, writer, wasReleasedCleanly: false, isReleased: true })
      else if (last.writer === writer && last.newest <= after) last.isReleased = true
    }
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
    return !this.#claims.has(shard) && after < (this.#unverifiable.get(shard) ?? 0)
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
  last.isReleased = false
}
