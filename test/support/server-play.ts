/**
 * Plays one history of a simulated world of REST servers: continuous changes, troubles, then a rest in which everything must
 * settle.
 */
import { Answers, LEASE_MS, ServerStore, type SimulatedServer, startSimulatedServer } from './server-world.ts'
import { SimulatedTime } from './simulated-time.ts'

export type ServerTrouble = {
  afterMs: number
  kind: 'kill' | 'restart' | 'stop' | 'leave' | 'join' | 'outage' | 'losses' | 'clock' | 'lag' | 'mute'
  /** Duration in milliseconds. */
  ms: number
}

export type ServerPlayed = {
  wrong: string[]
  publishes: number
  answered: number
  late: number
  /** At the end. */
  living: number
  publishing: number
  isAnswered: boolean
  records: number
}

const MAX_SERVERS = 5

export async function playServers(plan: {
  seed: number
  troubles: readonly ServerTrouble[]
  servers: number
}): Promise<ServerPlayed> {
  const world = new World(plan.seed)
  for (let n = 0; n < plan.servers; n += 1) world.join()
  world.changeForEver()
  await world.time.runUntil(3000)
  for (const trouble of plan.troubles) {
    await world.time.runUntil(world.time.now + trouble.afterMs)
    world.suffer(trouble)
  }
  await world.time.runUntil(world.time.now + 60_000)
  world.store.ways.calm()
  if (world.living().length === 0) world.join()
  for (const server of world.living()) Object.assign(server, { lag: 0, isMute: false })
  await world.time.runUntil(world.time.now + 60_000 + 4 * LEASE_MS)
  const before = world.answers.late
  const living = world.living()
  let isAnswered = false
  void living[0]?.change().then((haveSeen) => {
    isAnswered = haveSeen
  })
  await world.time.runUntil(world.time.now + LEASE_MS)
  const { wrong, publishes, count, late } = world.answers
  return {
    wrong,
    publishes,
    answered: count,
    late: late - before,
    living: living.length,
    publishing: living.filter((server) => server.publishes()).length,
    isAnswered,
    records: world.store.records,
  }
}

class World {
  readonly time = new SimulatedTime()
  readonly answers = new Answers()
  readonly store: ServerStore
  readonly #chance: { fraction(): number }
  #servers: SimulatedServer[] = []
  #sessions = 0

  constructor(seed: number) {
    this.#chance = { fraction: mulberry(seed) }
    this.store = new ServerStore(this.time, this.#chance)
  }

  living(): SimulatedServer[] {
    return this.#servers.filter(({ clock }) => !clock.isDead)
  }

  join(name?: string): void {
    if (this.living().length >= MAX_SERVERS) return
    this.#sessions += 1
    const session = `s${this.#sessions}`
    const { time, store, answers } = this
    const options = { name: name ?? `f${this.#sessions}`, session, time, store, answers }
    this.#servers.push(startSimulatedServer({ ...options, chance: this.#chance }))
  }

  changeForEver(): void {
    const one = this.#any()
    if (one && !one.clock.isStopped) void one.change().catch(() => undefined)
    this.time.at(50 + this.#chance.fraction() * 3000, () => this.changeForEver())
  }

  suffer({ kind, ms }: ServerTrouble): void {
    const { ways } = this.store
    const one = this.#any()
    if (kind === 'join') this.join()
    else if (kind === 'outage') this.#forAWhile(ms, (isOn) => Object.assign(ways, { isDown: isOn }))
    else if (kind === 'losses') this.#forAWhile(ms, (isOn) => Object.assign(ways, { lost: isOn ? 0.3 : 0 }))
    else if (one) this.#hit(one, kind, ms)
  }

  #any(): SimulatedServer | undefined {
    const living = this.living()
    return living[Math.floor(this.#chance.fraction() * living.length)]
  }

  #forAWhile(ms: number, set: (isOn: boolean) => void): void {
    set(true)
    this.time.at(ms, () => set(false))
  }

  #hit(one: SimulatedServer, kind: ServerTrouble['kind'], ms: number): void {
    if (kind === 'kill') one.clock.kill()
    if (kind === 'stop') {
      one.clock.stopFor(ms)
      // The existing objects arrive through its watch, which takes time.
      this.#forAWhile(ms + 15_000, (isOn) => Object.assign(one, { lag: isOn ? 0.8 : 0 }))
    }
    if (kind === 'mute')
      this.#forAWhile(ms, (isOn) => Object.assign(one, { isMute: isOn, lag: isOn ? 0.8 : 0 }))
    if (kind === 'clock') one.clock.setWallBy(this.#chance.fraction() < 0.5 ? ms * 1000 : -ms * 1000)
    if (kind === 'lag') this.#forAWhile(ms, (isOn) => Object.assign(one, { lag: isOn ? 0.2 : 0 }))
    if (kind === 'leave') {
      one.leave()
      this.time.at(5000, () => one.clock.kill())
    }
    if (kind === 'restart') {
      one.clock.kill()
      this.time.at(ms / 10, () => this.join(one.name))
    }
  }
}

/** Seeded random numbers. */
function mulberry(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
