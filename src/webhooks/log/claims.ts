/**
 * Who drives what belongs to a shard, as the log says it: from its claim on, until somebody else claims the shard. What the
 * one before says later is void: it was written before it knew, and what became of the delivery is another's to say. A claim
 * or a release may be late itself, as it stood on its way when its writer stood still. So each says what its writer knew, and
 * counts against that alone: not where somebody else has claimed the shard since.
 */
type Claim = {
  version: number
  /** Of its writer's last claim, where it has claimed the shard again. */
  newest: number
  writer: string
  /** Whoever had it before had handed it over: nothing of it was under way any more. */
  wasReleasedCleanly: boolean
  /** Its writer has handed it over. */
  isReleased: boolean
}

/** @property version of the segment that says so. @property after the version that its writer knew; absent: all before */
type ClaimStatement = { version: number; writer: string; after?: number | undefined }

/** A record is seldom judged long after its shard has changed hands. */
const KEPT = 8

export class ShardClaims {
  /** By shard, oldest first. */
  readonly #claims = new Map<number, Claim[]>()
  /** By shard of which no claim is known: the version of the last one that cannot be judged. */
  readonly #doubted = new Map<number, number>()

  /** In the order of the log. @returns the shards that are the writer's from there on */
  recordClaim(shards: readonly number[], said: ClaimStatement): number[] {
    const { version, writer, after = version } = said
    return shards.filter((shard) => {
      const last = this.#claims.get(shard)?.at(-1)
      if (last?.writer === writer) renew(last, version, after)
      else if (last && last.newest > after) return false
      else if (this.#isDoubtful(shard, after)) {
        this.#doubted.set(shard, version)
        return false
      } else {
        const wasReleasedCleanly = last?.isReleased ?? false
        this.#add(shard, {
          version,
          newest: version,
          writer,
          wasReleasedCleanly: wasReleasedCleanly,
          isReleased: false,
        })
      }
      return true
    })
  }

  /**
   * Somebody has claimed them who knew of nothing that is known here: whether somebody else had claimed them before, only who was
   * there then can tell. Where no claim is known but that one, everybody is believed again; and whoever claims them later without having
   * known of that cannot be judged either.
   */
  markUnverifiable(
    shards: readonly number[],
    { version, writer }: Pick<ClaimStatement, 'version' | 'writer'>,
  ): void {
    for (const shard of shards) {
      const last = this.#claims.get(shard)?.at(-1)
      if (last && last.writer !== writer && last.newest === 0) this.#claims.delete(shard)
      if (!this.#claims.has(shard)) this.#doubted.set(shard, version)
    }
  }

  /** In the order of the log. */
  recordRelease(shards: readonly number[], said: ClaimStatement): void {
    const { version, writer, after = version } = said
    for (const shard of shards) {
      const last = this.#claims.get(shard)?.at(-1)
      if (this.#isDoubtful(shard, after)) continue
      // Its claim may have left the log long ago: before all that is judged here.
      if (!last) this.#add(shard, { version, newest: 0, writer, wasReleasedCleanly: false, isReleased: true })
      else if (last.writer === writer && last.newest <= after) last.isReleased = true
    }
  }

  /** Whether the last claim to each of them is the writer's. */
  isHeldBy(shards: Iterable<number>, writer: string): boolean {
    for (const shard of shards) if (this.#claims.get(shard)?.at(-1)?.writer !== writer) return false
    return true
  }

  /** Whether nothing of the shard was under way when its last claim was made: the one before had handed it over. */
  isInOrder(shard: number): boolean {
    return this.#claims.get(shard)?.at(-1)?.wasReleasedCleanly ?? false
  }

  /** From which version on it is its writer's, who may have claimed it again since; 0 where none is known. */
  since(shard: number): number {
    return this.#claims.get(shard)?.at(-1)?.version ?? 0
  }

  /**
   * Whether another writer had claimed the shard by then. Where no claim is known, whoever writes may.
   * @param version of the segment that the record is in
   */
  isFenced(shard: number, version: number, writer: string): boolean {
    const claims = this.#claims.get(shard)
    const newest = claims?.at(-1)
    if (!newest) return false
    // As nearly always: a record is of those who have the shard.
    const last = newest.version <= version ? newest : claims?.findLast((claim) => claim.version <= version)
    return last !== undefined && last.writer !== writer
  }

  /** Nobody is known to have claimed it, and somebody may have of whom the writer did not know. */
  #isDoubtful(shard: number, after: number): boolean {
    return !this.#claims.has(shard) && after < (this.#doubted.get(shard) ?? 0)
  }

  #add(shard: number, claim: Claim): void {
    this.#doubted.delete(shard)
    const held = this.#claims.get(shard) ?? []
    held.push(claim)
    if (held.length > KEPT) held.shift()
    this.#claims.set(shard, held)
  }
}

function renew(last: Claim, version: number, after: number): void {
  // A writer that has not read its last claim has begun nothing since.
  const wasBegun = after >= last.newest
  last.newest = version
  // Without a release something of the time before may still be under way.
  if (wasBegun || last.isReleased) last.wasReleasedCleanly = last.isReleased
  last.isReleased = false
}
