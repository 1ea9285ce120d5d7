/**
 * The work of replicas in a simulated world: one delivery after the other, each sent, then recorded in one log behind a claim. A
 * receiver sees the requests, and checks their order.
 */

import type { ShardWork } from '../../src/ha/coordinator.ts'
import { ownsAlone, type ShardOwnership } from '../../src/ha/ownership.ts'
import type { Chance } from './shard-world.ts'
import type { SimulatedClock, SimulatedTime } from './simulated-time.ts'

/** `after`: how many lines the claimant had read. */
type Line = { kind: 'claim' | 'sent'; session: string; shard: number; item: number; after?: number }
type Call = <T>(effect: () => T) => Promise<T>

/** Maximum duration of an attempt; shorter than the time that other replicas wait. */
const LONGEST_ATTEMPT_MS = 20_000
const EVERY_MS = 700

export class OrderedWork {
  readonly #time: SimulatedTime
  readonly #chance: Chance
  readonly #shards: number
  readonly #log: Line[] = []
  /** What receivers see, by shard: the item, the session and the end of the last attempt. */
  readonly #seen = new Map<number, { item: number; session: string; until: number }>()
  /** The possible end of an attempt that may have begun, by shard and session: the longest is rare, but must be waited for. */
  readonly #mayLast = new Map<number, Map<string, number>>()
  readonly wrong: string[] = []
  attempts = 0
  repeated = 0

  constructor(time: SimulatedTime, chance: Chance, shards: number) {
    this.#time = time
    this.#chance = chance
    this.#shards = shards
  }

  worker(process: { session: string; clock: SimulatedClock; call: Call }): Worker {
    return new Worker(this, { ...process, shards: this.#shards })
  }

  /** Sends an attempt; resolves when it is over and the process runs. */
  send({ session, clock }: Process, shard: number, item: number): Promise<void> {
    const last = this.#seen.get(shard) ?? { item: -1, session, until: 0 }
    const what = `shard ${shard}: ${session} sends ${item} at ${Math.round(this.#time.now)}`
    if (item < last.item) this.wrong.push(`${what}, after ${last.item} of ${last.session}`)
    if (item > last.item + 1) this.wrong.push(`${what}, and the last was ${last.item}`)
    if (this.#time.now < last.until && last.session !== session)
      this.wrong.push(`${what}, while ${last.session} sends ${last.item} until ${Math.round(last.until)}`)
    for (const [other, until] of this.#mayLast.get(shard) ?? [])
      if (other !== session && this.#time.now < until)
        this.wrong.push(`${what}, while an attempt of ${other} might last until ${Math.round(until)}`)
    if (item === last.item) this.repeated += 1
    this.attempts += 1
    const fraction = this.#chance.fraction()
    const ms = fraction < 0.9 ? fraction * 100 : fraction * LONGEST_ATTEMPT_MS
    this.#seen.set(shard, { item, session, until: this.#time.now + ms })
    return new Promise((resolve) => this.#time.at(ms, () => clock.run(resolve)))
  }

  /** Records the kill of a process, which sends nothing more. */
  ended(session: string): void {
    for (const sessions of this.#mayLast.values()) sessions.delete(session)
    for (const seen of this.#seen.values()) if (seen.session === session) seen.until = 0
  }

  /** Records that the session may begin an attempt now. */
  mayBegin(session: string, shard: number): void {
    const sessions = this.#mayLast.get(shard) ?? new Map<string, number>()
    this.#mayLast.set(shard, sessions.set(session, this.#time.now + LONGEST_ATTEMPT_MS))
  }

  /** Records that nothing of the session is in progress. */
  released(session: string, shard: number): void {
    this.#mayLast.get(shard)?.delete(session)
  }

  /** Number of lines of the log. */
  get written(): number {
    return this.#log.length
  }

  append(line: Line): void {
    this.#log.push(line)
  }

  /** The first item of the shard without a valid record, and whether the session's claim is in the log. */
  readBack(session: string, shard: number): { next: number; isClaimed: boolean } {
    let claimant = ''
    let claimedAt = -1
    let next = 0
    for (const [at, line] of this.#log.entries()) {
      if (line.shard !== shard) continue
      // Late if another session has claimed it since its writer read.
      const isLate = line.session !== claimant && claimedAt >= (line.after ?? at)
      if (line.kind === 'claim' && !isLate) {
        claimedAt = at
        claimant = line.session
      }
      if (line.kind === 'sent' && line.session === claimant) next = Math.max(next, line.item + 1)
    }
    return { next, isClaimed: claimant === session }
  }
}

type Process = { session: string; clock: SimulatedClock; call: Call; shards: number }

class Worker implements ShardWork {
  readonly #work: OrderedWork
  readonly #process: Process
  readonly #next = new Map<number, number>()
  readonly #underWay = new Map<number, Promise<void>>()
  readonly #starting = new Set<number>()
  readonly #stopping = new Set<number>()

  constructor(work: OrderedWork, process: Process) {
    this.#work = work
    this.#process = process
  }

  /** @param onClaimedElsewhere called for a late claim of another session to an owned shard */
  begin(ownership: ShardOwnership, onClaimedElsewhere: (shard: number) => void): void {
    const { clock, shards, session } = this.#process
    const turn = () => {
      for (let shard = 0; shard < shards; shard += 1) {
        if (!ownsAlone(ownership, shard)) continue
        this.#work.mayBegin(session, shard)
        if (this.#work.readBack(session, shard).isClaimed) this.#attempt(ownership, shard)
        else onClaimedElsewhere(shard)
      }
      clock.after(EVERY_MS, turn)
    }
    clock.after(EVERY_MS, turn)
  }

  kill(): void {
    this.#work.ended(this.#process.session)
  }

  async start(shards: readonly number[], signal: AbortSignal): Promise<void> {
    for (const shard of shards) {
      if (this.#stopping.has(shard)) this.#complain(`starts shard ${shard}, which it has not stopped`)
      this.#starting.add(shard)
    }
    try {
      await this.#readBack(shards, signal)
    } finally {
      for (const shard of shards) this.#starting.delete(shard)
    }
  }

  async confirm(shards: readonly number[], signal: AbortSignal): Promise<void> {
    const { session } = this.#process
    const isHeld = (shard: number) => this.#work.readBack(session, shard).isClaimed
    const found = await this.#surely(() => ({ after: this.#work.written, isHeld: shards.every(isHeld) }))
    if (!found.isHeld) throw new Error('somebody else has claimed it')
    await this.#claim(shards, found.after, signal)
  }

  async #readBack(shards: readonly number[], signal: AbortSignal): Promise<void> {
    const after = await this.#surely(() => this.#work.written)
    for (const [shard, next] of await this.#claim(shards, after, signal)) this.#next.set(shard, next)
  }

  /** @returns the first item without a record, by shard @throws Error if another session has claimed one of them */
  async #claim(shards: readonly number[], after: number, signal: AbortSignal): Promise<Map<number, number>> {
    const { session } = this.#process
    await this.#surely(() => {
      for (const shard of shards) this.#work.append({ kind: 'claim', session, shard, item: 0, after })
    })
    const found = await this.#surely(() => shards.map((shard) => this.#work.readBack(session, shard)))
    if (signal.aborted) throw new Error('given up')
    const next = new Map<number, number>()
    shards.forEach((shard, at) => {
      if (!found[at]?.isClaimed) throw new Error('somebody else has claimed it')
      next.set(shard, found[at].next)
    })
    return next
  }

  /** Checks periodically what it owns. */
  owned(): void {}

  ownedAlone(): void {}

  async stop(shard: number): Promise<void> {
    if (this.#starting.has(shard)) this.#complain(`stops shard ${shard}, which it is starting`)
    this.#stopping.add(shard)
    await this.#underWay.get(shard)
    this.#work.released(this.#process.session, shard)
    this.#stopping.delete(shard)
  }

  /** The coordinator has left: its process ends. */
  left(): void {
    if (this.#underWay.size > 0) this.#complain(`has left, with ${this.#underWay.size} attempts under way`)
  }

  #complain(what: string): void {
    this.#work.wrong.push(`${this.#process.session} ${what}`)
  }

  #attempt(ownership: ShardOwnership, shard: number): void {
    if (!ownsAlone(ownership, shard) || this.#underWay.has(shard)) return
    const { session } = this.#process
    const item = this.#next.get(shard) ?? 0
    const settled = this.#work
      .send(this.#process, shard, item)
      .then(() => this.#surely(() => this.#work.append({ kind: 'sent', session, shard, item })))
      .then(() => {
        this.#next.set(shard, item + 1)
        this.#underWay.delete(shard)
      })
    this.#underWay.set(shard, settled)
  }

  /** Repeats the call until it is known to have taken effect. */
  async #surely<T>(effect: () => T): Promise<T> {
    for (;;) {
      try {
        return await this.#process.call(effect)
      } catch {
        await new Promise<void>((resolve) => void this.#process.clock.after(200, resolve))
      }
    }
  }
}
