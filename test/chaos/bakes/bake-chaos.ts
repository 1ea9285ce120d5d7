/** Kills bakes at random moments: a killed bake has no effect, and the same template then bakes. */

import { existsSync, lstatSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { makeImage } from '../../../playground/bakes/images.ts'
import type { BakeOrder, OrderedCredential } from '../../../src/apis/bake.ts'
import { type BakeBed, startBakeBed } from '../../support/bake/bake-bed.ts'
import { orderOf } from '../../support/bake/bake-order.ts'
import { BakePod, type RunningBake } from '../../support/bake/bake-process.ts'
import { formsOf, leaksIn, leaksInFolder } from '../../support/bake/canary.ts'
import { startTestRegistry, type TestRegistry } from '../../support/registry/test-registry.ts'
import type { SeededRandom } from '../seeded-random.ts'
import { layoutProblems } from './layout-problems.ts'

export type BakeChaosOptions = {
  kills: number
  random: SeededRandom
  say(line: string): void
}

export type BakeChaosFindings = {
  /** Bakes that were killed in time, by the point that they had reached. */
  killed: number
  finished: number
  points: Record<string, number>
  /** Bakes in between that were not killed. */
  baked: number
  /** The number of forms in which the planted secret was found at the end, which proves that the scan works. */
  planted: string
  wrong: string[]
}

const SECRET = 'canary-of-the-killed-bakes'
const USER = 'bot'
/** How often a bake is not killed. */
const LET_GO = 10
/** Interval of the checks of a folder. */
const LOOK_MS = 2
/**
 * The share that is killed before there is a folder, and the share that is killed while the box is put in place; the rest is
 * killed in between.
 */
const EARLY = 0.15
const LATE = 0.2
/** Longer than it takes to put a box in place. */
const PUBLISHING_MS = 40

export async function playBakeChaos(options: BakeChaosOptions): Promise<BakeChaosFindings> {
  const bed = await startBakeBed()
  const registry = await startTestRegistry({
    auth: 'bearer',
    accounts: { [USER]: { password: SECRET, pulls: ['*'] } },
  })
  const pod = new BakePod()
  try {
    return await new BakeChaos(options, bed, registry, pod).play()
  } finally {
    pod.remove()
    await registry.stop()
    await bed.stop()
  }
}

class BakeChaos {
  readonly #options: BakeChaosOptions
  readonly #bed: BakeBed
  readonly #registry: TestRegistry
  readonly #pod: BakePod
  readonly #findings: BakeChaosFindings = {
    killed: 0,
    finished: 0,
    points: {},
    baked: 0,
    planted: '',
    wrong: [],
  }
  #services: BakeOrder['services'] = []
  /** The bake that made the current box. */
  #live: string | undefined
  /** The usual time until a bake has a folder, and from then on. */
  #usual = { begin: 0, work: 0 }

  constructor(options: BakeChaosOptions, bed: BakeBed, registry: TestRegistry, pod: BakePod) {
    this.#options = options
    this.#bed = bed
    this.#registry = registry
    this.#pod = pod
  }

  async play(): Promise<BakeChaosFindings> {
    await this.#prepare()
    const { kills, say } = this.#options
    // Some bakes end before the moment at which they were to be killed.
    for (let turn = 1; this.#findings.killed < kills && turn <= kills * 2; turn += 1) {
      await this.#kill(turn)
      if (turn % LET_GO === 0) {
        await this.#letGo(turn)
        say(`${turn} bakes, ${this.#findings.wrong.length} of them wrong`)
      }
    }
    await this.#letGo(kills * 2)
    this.#findings.planted = this.#plant()
    return this.#findings
  }

  /** Must be the last step, because it spoils the folder. */
  #plant(): string {
    const forms = formsOf(SECRET, USER)
    writeFileSync(join(this.#pod.memory, 'planted'), Object.values(forms).join('\n'))
    const found = leaksInFolder(this.#pod.folder, SECRET, USER)
    return `${found.length} of ${Object.keys(forms).length}`
  }

  async #prepare(): Promise<void> {
    const parameter = await this.#bed.store('rc_bot', SECRET)
    const { host } = this.#registry
    const credential: OrderedCredential = {
      id: 'rc_bot',
      type: 'token',
      registry: host,
      username: USER,
      parameter,
    }
    for (const name of ['api', 'web', 'db']) {
      await this.#registry.push(`acme/${name}`, '1.0', makeImage({ layers: ['base', name, 300_000] }))
      this.#services = [...this.#services, { name, image: `${host}/acme/${name}:1.0`, credential }]
    }
    // Makes pulling take about as long as everything else.
    this.#registry.front.bytesPerSecond = 600_000
    // The first bake is slower than the following ones.
    await this.#letGo(0)
    const began = performance.now()
    const order = this.#order(1, 'm')
    const bake = this.#pod.start(order, this.#environment())
    await untilThere(join(this.#pod.output, '.davit/shop', order.bake), bake)
    this.#usual.begin = performance.now() - began
    await bake.ended
    this.#usual.work = performance.now() - began - this.#usual.begin
    this.#live = this.#liveBake()
    const { begin, work } = this.#usual
    this.#options.say(`a bake takes ${Math.round(begin)} ms to begin, and ${Math.round(work)} ms more`)
  }

  /** @returns whether it had ended before the moment at which it was to be killed */
  async #untilMoment(name: string, bake: RunningBake): Promise<boolean> {
    const { random } = this.#options
    const when = random.fraction()
    const folder = join(this.#pod.output, '.davit/shop', name)
    const { begin, work } = this.#usual
    const longest = when < EARLY ? begin : when < EARLY + LATE ? PUBLISHING_MS : work * 1.05
    const moment = random.fraction() * longest
    if (when >= EARLY) await untilThere(folder, bake)
    if (longest === PUBLISHING_MS) await untilThere(join(folder, 'oci-layout'), bake)
    return await Promise.race([bake.ended.then(() => true), sleep(moment).then(() => false)])
  }

  async #kill(turn: number): Promise<void> {
    const order = this.#order(turn, 'k')
    const bake = this.#pod.start(order, this.#environment())
    const began = performance.now()
    const over = await this.#untilMoment(order.bake, bake)
    const moment = performance.now() - began
    const point = this.#pointOf(order.bake)
    bake.kill()
    const { result, log } = await bake.ended
    if (over) this.#findings.finished += 1
    else {
      this.#findings.killed += 1
      this.#findings.points[point] = (this.#findings.points[point] ?? 0) + 1
    }
    const live = this.#liveBake()
    // Only the moment of the rename counts: before it the old box, after it the new one.
    if (live === order.bake) this.#live = live
    this.#check(
      `bake ${turn}, killed after ${Math.round(moment)} ms (${point})`,
      log + JSON.stringify(result ?? {}),
    )
  }

  async #letGo(turn: number): Promise<void> {
    const order = this.#order(turn, 'b')
    const { code, log, result } = await this.#pod.start(order, this.#environment()).ended
    if (code !== 0) {
      this.#findings.wrong.push(`bake ${turn} does not bake: ${log.slice(-2000)}`)
      return
    }
    this.#live = order.bake
    this.#findings.baked += 1
    this.#check(`bake ${turn}, let go`, log + JSON.stringify(result))
    const left = readdirSync(join(this.#pod.output, '.davit/shop')).filter((name) => name !== order.bake)
    if (left.length > 1) this.#findings.wrong.push(`bake ${turn} has left over ${left.join(', ')}`)
  }

  #check(what: string, text: string): void {
    const { wrong } = this.#findings
    const { output, memory, folder } = this.#pod
    if (this.#liveBake() !== this.#live)
      wrong.push(`${what}: the box is of ${this.#liveBake()}, not of ${this.#live}`)
    const names = this.#services.map(({ name }) => name)
    for (const problem of this.#live ? layoutProblems(join(output, 'shop'), names) : [])
      wrong.push(`${what}: ${problem}`)
    for (const path of authFilesIn(memory)) wrong.push(`${what}: a file with a login is left: ${path}`)
    for (const leak of [...leaksIn(text, SECRET, USER), ...leaksInFolder(folder, SECRET, USER)])
      wrong.push(`${what}: the secret is in ${leak}`)
  }

  /** The progress of a bake, by its folder. */
  #pointOf(bake: string): string {
    const folder = join(this.#pod.output, '.davit/shop', bake)
    if (this.#liveBake() === bake) return 'published'
    if (!existsSync(folder)) return 'before its folder'
    const blobs = join(folder, 'blobs/sha256')
    if (!existsSync(blobs)) return 'before its first blob'
    return existsSync(join(folder, 'oci-layout')) ? 'publishing' : 'pulling'
  }

  #liveBake(): string | undefined {
    const path = join(this.#pod.output, 'shop', 'credentials.json')
    return existsSync(path) ? (JSON.parse(readFileSync(path, 'utf8')) as { bake: string }).bake : undefined
  }

  #order(turn: number, kind: string): BakeOrder {
    return orderOf(this.#services, this.#pod.output, { bake: `shop-${kind}${turn}` })
  }

  #environment(): Record<string, string> {
    return this.#bed.environment(this.#registry.ca)
  }
}

/** Also returns when the bake has ended. */
async function untilThere(path: string, { ended }: RunningBake): Promise<void> {
  let over = false
  void ended.then(() => {
    over = true
  })
  while (!over && !existsSync(path)) await sleep(LOOK_MS)
}

/** Finds credential files by their content. */
function authFilesIn(folder: string): string[] {
  return readdirSync(folder, { recursive: true })
    .map((name) => join(folder, String(name)))
    .filter((path) => lstatSync(path).isFile() && readFileSync(path, 'utf8').includes('"auths"'))
}
