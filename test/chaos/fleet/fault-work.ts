/** Executes the planned faults, and records their times and processes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { SeededRandom } from '../seeded-random.ts'
import { collide, type Fault, OF_VERSIONS, type RecordKind } from './faults.ts'
import type { Fleet } from './fleet.ts'
import type { Member } from './member.ts'
import { type Away, doToStore, isOfStore } from './store-faults.ts'

/** The moment in which a process is ended or suspended. */
export type Blow = { life: number; at: number }

/** A fault as it happened. Times by `performance.now()`. */
export type FaultRecord = {
  kind: RecordKind
  from: number
  /** When it was undone; for a kill, when the next process was started. */
  to: number
  /** When everything was ready again. */
  readyAt: number
  /** Numbers of the affected lives: all of them for a fault of the store. */
  lives: 'all' | number[]
  blows: Blow[]
  /** The step of a clock. */
  stepMs?: number
  /** The period in which no process could store anything. */
  away?: Away
}

type Running = { fault: Fault; ended: Promise<void> }

const READY_LIMIT_MS = 120_000
const READY_POLL_MS = 150
/** Rest after everything is ready again. */
const CALM_MS = [500, 5000] as const
/** Maximum number of simultaneous faults. */
const MOST = 6
/** Faults that may start early if the next one excludes one in progress. */
const AHEAD = 10

export class FaultWork {
  readonly records: FaultRecord[] = []
  /** Descriptions of violations. */
  readonly wrong: string[] = []
  readonly #fleet: Fleet
  readonly #random: SeededRandom
  readonly #say: (line: string) => void
  readonly #running = new Set<Running>()
  #undoneAt = performance.now()
  readonly #otherMain: string | undefined

  /** @param otherMain entry point of the version that is changed to, and back */
  constructor(fleet: Fleet, random: SeededRandom, say: (line: string) => void, otherMain?: string) {
    this.#fleet = fleet
    this.#random = random
    this.#say = say
    this.#otherMain = otherMain
  }

  /** Milliseconds since the last fault was undone; 0 while one is in progress. */
  get calmMs(): number {
    return this.#running.size > 0 ? 0 : performance.now() - this.#undoneAt
  }

  /** Resolves when all faults are undone. @param end no fault begins after it */
  async play(plan: Iterator<Fault>, end: number): Promise<void> {
    const over = new AbortController()
    const watched = this.#noticeReady(over.signal)
    let ahead: Fault[] = []
    while (performance.now() < end) {
      ahead = fill(ahead, plan)
      if (ahead[0]?.rests) await this.#rest()
      const next = this.#nextOf(ahead)
      if (!next && this.#running.size === 0) break
      if (next) {
        ahead = ahead.filter((one) => one !== next)
        await sleep(next.pauseMs)
        this.#begin(next)
      } else await Promise.race([...this.#running].map(({ ended }) => ended))
    }
    await this.#undone()
    over.abort()
    await watched
  }

  /** @returns false if some member was not ready within the limit */
  async untilReady(): Promise<boolean> {
    const deadline = performance.now() + READY_LIMIT_MS
    while (performance.now() < deadline) {
      if (await this.#isReady()) return true
      await sleep(READY_POLL_MS)
    }
    return false
  }

  async #isReady(): Promise<boolean> {
    const ready = await Promise.all(this.#fleet.members.map(({ process }) => process.isReady()))
    return ready.every(Boolean)
  }

  /** The readiness texts of members that are not ready. */
  async #unready(): Promise<string> {
    const texts = await Promise.all(
      this.#fleet.members.map(async ({ name, process }) =>
        (await process.isReady()) ? [] : [`${name} (${(await process.readiness()).trim()})`],
      ),
    )
    return texts.flat().join(', ')
  }

  #nextOf(ahead: readonly Fault[]): Fault | undefined {
    if (this.#running.size >= MOST) return undefined
    const rest = ahead.findIndex(({ rests }, index) => rests && index > 0)
    const until = rest < 0 ? ahead : ahead.slice(0, rest)
    return until.find((one) => ![...this.#running].some(({ fault }) => collide(fault, one)))
  }

  #begin(fault: Fault): void {
    const running = { fault, ended: Promise.resolve() }
    this.#running.add(running)
    running.ended = this.#do(fault)
      .then(
        (record) => {
          this.records.push(record)
          const { kind, from, to, lives } = record
          this.#say(`${kind}${describe(fault, lives)} for ${Math.round(to - from)} ms`)
        },
        (error: unknown) => void this.wrong.push(`${fault.kind} could not be done: ${String(error)}`),
      )
      .then(() => {
        this.#running.delete(running)
        this.#undoneAt = performance.now()
      })
  }

  async #undone(): Promise<void> {
    while (this.#running.size > 0) await Promise.race([...this.#running].map(({ ended }) => ended))
  }

  async #rest(): Promise<void> {
    await this.#undone()
    if (!(await this.untilReady()))
      this.wrong.push(`not ready after ${READY_LIMIT_MS / 1000} s without a fault: ${await this.#unready()}`)
    await sleep(this.#random.between(...CALM_MS))
  }

  /** Records for undone faults when everything was ready again. */
  async #noticeReady(over: AbortSignal): Promise<void> {
    while (!over.aborted) {
      const asked = performance.now()
      if (await this.#isReady())
        for (const record of this.records)
          if (record.to < asked) record.readyAt = Math.min(record.readyAt, asked)
      await sleep(READY_POLL_MS)
    }
  }

  async #do(fault: Fault): Promise<FaultRecord> {
    const member = this.#memberOf(fault)
    const from = performance.now()
    const touched = member ? [member] : this.#rolled(fault)
    const blows: Blow[] = []
    let away: Away | undefined
    if (member) await doTo(member, fault, blows)
    else away = await this.#doToAll(fault, blows)
    const to = performance.now()
    const lives = touched.length === 0 ? 'all' : livesWithin(touched, from, to)
    const step = fault.kind === 'clock step' ? { stepMs: fault.stepMs } : {}
    return {
      kind: fault.kind,
      from,
      to,
      readyAt: Number.POSITIVE_INFINITY,
      lives,
      blows,
      ...step,
      ...(away ? { away } : {}),
    }
  }

  #memberOf({ target }: Fault): Member | undefined {
    if (!target) return undefined
    const { controllers, servers } = this.#fleet
    return (target.role === 'controller' ? controllers : servers)[target.index]
  }

  #rolled({ kind }: Fault): Member[] {
    if (kind === 'roll controllers') return this.#fleet.controllers
    if (kind === OF_VERSIONS) return this.#fleet.members
    return kind === 'roll REST servers' ? this.#fleet.servers : []
  }

  /** @returns the period without a store, if there was one */
  async #doToAll(fault: Fault, blows: Blow[]): Promise<Away | undefined> {
    if (isOfStore(fault.kind)) return await doToStore(this.#fleet, fault)
    if (fault.kind === OF_VERSIONS)
      for (const member of this.#fleet.members) member.main = member.main ? undefined : this.#otherMain
    await roll(this.#rolled(fault), fault, blows)
    return undefined
  }
}

function fill(ahead: readonly Fault[], plan: Iterator<Fault>): Fault[] {
  const filled = [...ahead]
  while (filled.length < AHEAD) {
    const { value, done } = plan.next()
    if (done) break
    filled.push(value)
  }
  return filled
}

/** Replaces members one after another, each after the previous one is ready, like a rollout. */
async function roll(members: readonly Member[], { newName, forMs }: Fault, blows: Blow[]): Promise<void> {
  for (const member of members) {
    blows.push(blowTo(member))
    await member.terminate()
    await sleep(forMs)
    member.start(newName)
    const deadline = performance.now() + READY_LIMIT_MS
    while (!(await member.process.isReady()) && performance.now() < deadline) await sleep(READY_POLL_MS)
  }
}

async function doTo(member: Member, fault: Fault, blows: Blow[]): Promise<void> {
  const { process, proxy } = member
  switch (fault.kind) {
    case 'kill controller':
    case 'kill REST server':
      blows.push(blowTo(member))
      await member.kill()
      await sleep(fault.forMs)
      return member.start(fault.newName)
    case 'pause controller':
    case 'suspend controller':
    case 'suspend REST server':
      blows.push(blowTo(member))
      process.suspend()
      await sleep(fault.forMs)
      return process.resume()
    case 'clock step':
      await member.stepClock(fault.stepMs)
      await sleep(fault.forMs)
      return await member.stepClock(0)
    case 'cut':
      proxy.cut()
      break
    case 'delay':
      proxy.delay('up', fault.upMs)
      proxy.delay('down', fault.downMs)
      break
    case 'deaf':
      proxy.swallow(fault.deaf)
      break
    default: {
      const random = new SeededRandom(fault.seed)
      proxy.hold(() => random.chance(1 / fault.heldOf))
    }
  }
  await sleep(fault.forMs)
  proxy.heal()
}

function blowTo({ life }: Member): Blow {
  return { life: life?.number ?? 0, at: performance.now() }
}

function livesWithin(members: readonly Member[], from: number, to: number): number[] {
  return members
    .flatMap(({ lives }) => lives)
    .filter(({ startedAt, endedAt = to }) => startedAt <= to && endedAt >= from)
    .map(({ number }) => number)
}

function describe(fault: Fault, lives: FaultRecord['lives']): string {
  if (lives === 'all') return ''
  const more = fault.kind === 'clock step' ? ` by ${fault.stepMs / 1000} s` : ''
  const deaf = fault.kind === 'deaf' ? ` ${fault.deaf}` : ''
  return `${deaf}${more} (life ${lives.join(', ')})`
}
