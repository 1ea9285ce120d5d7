/** Does what was planned, and writes down when, and to which processes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { SeededRandom } from '../seeded-random.ts'
import type { Episode, Fault } from './faults.ts'
import type { Fleet } from './fleet.ts'
import type { Member } from './member.ts'

/** A fault as it was. Times by `performance.now()`. */
export type FaultRecord = Pick<Fault, 'kind'> & {
  from: number
  /** When it was undone; of a kill when the next process was started. */
  to: number
  /** When everything was ready again. */
  readyAt: number
  /** Numbers of the lives that it touched: all of them, where it was done to the store. */
  lives: 'all' | number[]
}

const READY_LIMIT_MS = 90_000
const READY_POLL_MS = 50

export class FaultWork {
  readonly records: FaultRecord[] = []
  readonly #fleet: Fleet
  readonly #say: (line: string) => void

  constructor(fleet: Fleet, say: (line: string) => void) {
    this.#fleet = fleet
    this.#say = say
  }

  /** @returns false when the fleet was to be ready again afterwards and was not */
  async play({ faults, calmMs, heals }: Episode): Promise<boolean> {
    const records = await Promise.all(faults.map((fault) => this.#do(fault)))
    this.#say(
      records
        .map(
          ({ kind, from, to, lives }, index) =>
            `${kind}${describe(faults[index], lives)} for ${Math.round(to - from)} ms`,
        )
        .join(' + '),
    )
    this.records.push(...records)
    const settled = this.untilReady()
    void settled.then(() => {
      for (const record of records) record.readyAt = performance.now()
    })
    const isReady = heals ? await settled : true
    await sleep(calmMs)
    return isReady
  }

  /** @returns false when some member was not within the limit */
  async untilReady(): Promise<boolean> {
    const deadline = performance.now() + READY_LIMIT_MS
    while (performance.now() < deadline) {
      const ready = await Promise.all(this.#fleet.members.map(({ process }) => process.isReady()))
      if (ready.every(Boolean)) return true
      await sleep(READY_POLL_MS)
    }
    return false
  }

  async #do(fault: Fault): Promise<FaultRecord> {
    await sleep(fault.afterMs)
    const member = this.#memberOf(fault)
    const from = performance.now()
    const touched = member ? [member] : this.#rolled(fault)
    if (member) await doTo(member, fault)
    else await this.#doToAll(fault)
    const to = performance.now()
    const lives = touched.length === 0 ? 'all' : livesWithin(touched, from, to)
    return { kind: fault.kind, from, to, readyAt: Number.POSITIVE_INFINITY, lives }
  }

  #memberOf({ target }: Fault): Member | undefined {
    if (!target) return undefined
    const { controllers, facades } = this.#fleet
    return (target.role === 'controller' ? controllers : facades)[target.index]
  }

  #rolled({ kind }: Fault): Member[] {
    if (kind === 'roll controllers') return this.#fleet.controllers
    return kind === 'roll facades' ? this.#fleet.facades : []
  }

  async #doToAll(fault: Fault): Promise<void> {
    const { controlPlane } = this.#fleet.davit
    switch (fault.kind) {
      case 'API server restart':
        await controlPlane.stopApiServer()
        await sleep(fault.forMs)
        return await controlPlane.startApiServer()
      case 'etcd restart':
        await controlPlane.killEtcd()
        await sleep(fault.forMs)
        return await controlPlane.startEtcd()
      case 'no space in etcd':
        await controlPlane.setNoSpace(true)
        await sleep(fault.forMs)
        return await controlPlane.setNoSpace(false)
      case 'etcd compaction':
        await controlPlane.compactEtcd()
        return
      default:
        await this.#roll(this.#rolled(fault), fault)
    }
  }

  /** One after another; the next only when the one before is ready, as a rollout does. */
  async #roll(members: readonly Member[], { newName, forMs }: Fault): Promise<void> {
    for (const member of members) {
      await member.terminate()
      await sleep(forMs)
      member.start(newName)
      const deadline = performance.now() + READY_LIMIT_MS
      while (!(await member.process.isReady()) && performance.now() < deadline) await sleep(READY_POLL_MS)
    }
  }
}

async function doTo(member: Member, fault: Fault): Promise<void> {
  const { process, proxy } = member
  switch (fault.kind) {
    case 'kill controller':
    case 'kill facade':
      await member.kill()
      await sleep(fault.forMs)
      return member.start(fault.newName)
    case 'suspend controller':
    case 'suspend facade':
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

function livesWithin(members: readonly Member[], from: number, to: number): number[] {
  return members
    .flatMap(({ lives }) => lives)
    .filter(({ startedAt, endedAt = to }) => startedAt <= to && endedAt >= from)
    .map(({ number }) => number)
}

function describe(fault: Fault | undefined, lives: FaultRecord['lives']): string {
  if (!fault || lives === 'all') return ''
  const more = fault.kind === 'clock step' ? ` by ${fault.stepMs / 1000} s` : ''
  const deaf = fault.kind === 'deaf' ? ` ${fault.deaf}` : ''
  return `${deaf}${more} (life ${lives.join(', ')})`
}
