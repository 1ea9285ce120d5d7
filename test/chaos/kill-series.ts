/**
 * One controller under load that is killed again and again within a minute: what was open at a kill must come soon after the last start,
 * although every owner in a row has ended.
 */
import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { formatPosition } from '../../src/apis/delivery-segment.ts'
import { derivedName } from '../../src/apis/ids.ts'
import { isShardRecord, outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { readLoggedOutcomes } from '../../src/webhooks/log/reader.ts'
import { listAll } from '../support/list-all.ts'
import { ControllerProcess } from './controller-process.ts'
import { LOG_TYPE } from './publisher.ts'
import { Receivers, type SeenReception } from './receivers.ts'
import { SeededRandom } from './seeded-random.ts'
import { type EndpointOfRun, type Setting, setUp } from './setting.ts'

/** Times by `performance.now()`. */
export type SeriesFindings = {
  kills: number
  deliveries: number
  /** Deliveries that were never received. */
  lost: string[]
  /** Requests for deliveries that were taken before, and of them those without a kill in between. */
  repeats: number
  unexplained: number
  /** Milliseconds from the last start, or from the acceptance if that was later, to the first success. */
  latenessMs: number[]
  /** Deliveries whose attempt a careful owner had recorded when it was killed: they are tried one at a time. */
  suspects: number
  /** Deliveries that came later than is promised, without suspects and what waits behind one at an ordered endpoint. */
  late: string[]
}

/** Enough for their attempts at a time to take the load, also what a crash has left. */
const ENDPOINTS: readonly EndpointOfRun[] = [
  { name: 'ordered-1', ordered: true },
  { name: 'ordered-2', ordered: true },
  ...Array.from({ length: 18 }, (_, n) => ({ name: `unordered-${n + 1}`, ordered: false })),
]

/** Nothing but suspects, and what stands behind one at an ordered endpoint, may come later after the last start. */
const SOON_MS = 15_000
const MINUTE_MS = 60_000
/** After the last start, for everything that is left. */
const REST_MS = MINUTE_MS
/** An ordered endpoint takes one delivery after the other, so each gets only one of so many. */
const ORDERED_ONE_OF = 30
/** Of the answers, so that attempts are in progress at each kill, and the endpoints still keep up. */
const SLOW_SHARE = 0.1
const QUIET_MS = 3000

const nothing = () => undefined

type SeriesOptions = { seed: number; kills: number; perSecond: number; say: (line: string) => void }

export async function playKillSeries(options: SeriesOptions): Promise<SeriesFindings> {
  const controlPlane = await startControlPlane()
  try {
    return await new KillSeries(controlPlane, { ...options, opsPort: await freePort() }).play()
  } finally {
    await controlPlane.stop()
  }
}

type Accepted = { key: string; endpoint: string; at: number }

class KillSeries {
  readonly #controlPlane: ControlPlane
  readonly #options: SeriesOptions & { opsPort: number }
  readonly #accepted: Accepted[] = []
  /** Keys of deliveries by their position in the log. */
  readonly #atPosition = new Map<string, string>()
  readonly #suspects = new Set<string>()
  #run = 0
  #logPath = ''

  constructor(controlPlane: ControlPlane, options: SeriesOptions & { opsPort: number }) {
    this.#controlPlane = controlPlane
    this.#options = options
  }

  async play(): Promise<SeriesFindings> {
    const { seed, kills, say } = this.#options
    const random = new SeededRandom(seed)
    this.#logPath = join(await mkdtemp(join(tmpdir(), 'davit-series-')), 'controller.log')
    say(`the controller's log is ${this.#logPath}`)
    const manners = random.fork()
    const receivers = await Receivers.start({
      random: random.fork(),
      run: () => this.#run,
      isPoisoned: () => false,
      manner: (endpoint) => (!endpoint.startsWith('ordered') && manners.chance(SLOW_SHARE) ? 'slow' : 'ok'),
    })
    const setting = await setUp(this.#controlPlane, receivers.url, ENDPOINTS)
    let controller = this.#start(setting)
    const killedAt: number[] = []
    try {
      await controller.untilReady()
      const ending = new AbortController()
      const published = this.#publish(setting, ending.signal)
      for (let kill = 0; kill < kills; kill += 1) {
        await sleep(random.between(0.5, 1.5) * (MINUTE_MS / kills) - 1500)
        await controller.kill()
        killedAt.push(performance.now())
        await this.#noteSuspects(setting)
        say(`killed ${kill + 1} of ${kills}, ${this.#accepted.length} deliveries accepted`)
        controller = this.#start(setting)
      }
      const lastStart = performance.now()
      await controller.untilReady()
      await sleep(SOON_MS)
      ending.abort()
      await published
      await this.#untilTaken(receivers)
      return this.#findings(receivers.receptions, killedAt, lastStart)
    } finally {
      if (controller.running) await controller.kill()
      await receivers.close()
      await setting.close()
    }
  }

  #start(setting: Setting): ControllerProcess {
    this.#run += 1
    return new ControllerProcess({
      kubeconfigPath: this.#controlPlane.kubeconfigPath,
      namespace: setting.namespace,
      replica: 'series',
      opsPort: this.#options.opsPort,
      waitScale: 1,
      logPath: this.#logPath,
    })
  }

  /** Each event goes to one endpoint. */
  async #publish({ eventLog, organization, targets }: Setting, ending: AbortSignal): Promise<void> {
    const usual = targets.filter(({ name }) => !name.startsWith('ordered'))
    const ordered = targets.filter(({ name }) => name.startsWith('ordered'))
    const appends: Promise<void>[] = []
    const started = performance.now()
    for (let n = 0; !ending.aborted; n += 1) {
      const dueMs = (n * 1000) / this.#options.perSecond - (performance.now() - started)
      if (dueMs > 0) await sleep(dueMs)
      const target = ordered[n % ORDERED_ONE_OF] ?? usual[n % usual.length]
      if (!target) break
      const acceptedAt = Date.now()
      const name = derivedName(acceptedAt, `series ${n}`)
      const event = acceptEvent(
        {
          name,
          namespace: organization,
          type: LOG_TYPE,
          dataText: `{"n":${n}}`,
          happenedAt: acceptedAt,
          key: name,
        },
        [target],
      )
      const append = async () => {
        const { version, firstDelivery } = await eventLog.append([event])
        const key = `${target.name} msg_${name}`
        this.#accepted.push({ key, endpoint: target.name, at: performance.now() })
        this.#atPosition.set(formatPosition({ version, index: firstDelivery }), key)
      }
      appends.push(append())
    }
    await Promise.all(appends)
  }

  /** What the log has as begun, and without an outcome. */
  async #noteSuspects({ api, namespace }: Setting): Promise<void> {
    const log = { info: nothing, warn: nothing, error: nothing }
    const segments = (await listAll(api, outcomeSegments, { namespace }))
      .flatMap((raw) => readLoggedOutcomes(raw, log) ?? [])
      .sort((a, b) => a.version - b.version)
    const begun = new Set<string>()
    for (const record of segments.flatMap(({ records }) => records)) {
      if (isShardRecord(record)) continue
      if (record.kind === 'begin') begun.add(formatPosition(record.position))
      else if (record.kind !== 'creating') begun.delete(formatPosition(record.position))
    }
    for (const position of begun) this.#suspects.add(this.#atPosition.get(position) ?? position)
  }

  async #untilTaken(receivers: Receivers): Promise<void> {
    const limit = performance.now() + REST_MS
    const taken = () => [...receivers.taken.values()].reduce((sum, { size }) => sum + size, 0)
    while (taken() < this.#accepted.length && performance.now() < limit) await sleep(100)
    await sleep(QUIET_MS)
  }

  #findings(
    receptions: readonly SeenReception[],
    killedAt: readonly number[],
    lastStart: number,
  ): SeriesFindings {
    const taken = Map.groupBy(
      receptions.filter(({ answer }) => answer === 'ok'),
      ({ endpoint, id }) => `${endpoint} ${id}`,
    )
    const lost: string[] = []
    const late: string[] = []
    const latenessMs: number[] = []
    let repeats = 0
    let unexplained = 0
    const slowEndpoints = new Set(
      [...this.#suspects].map((key) => key.split(' ')[0]).filter((name) => name?.startsWith('ordered')),
    )
    for (const { key, endpoint, at } of this.#accepted) {
      const [first, ...others] = taken.get(key) ?? []
      if (!first) {
        lost.push(key)
        continue
      }
      const ms = Math.max(0, first.answeredAt - Math.max(at, lastStart))
      latenessMs.push(ms)
      const isSuspicious = this.#suspects.has(key) || slowEndpoints.has(endpoint)
      if (ms > SOON_MS && !isSuspicious) late.push(`${key} after ${Math.round(ms)} ms`)
      repeats += others.length
      for (const [n, other] of others.entries()) {
        const before = others[n - 1] ?? first
        if (!killedAt.some((kill) => before.answeredAt <= kill + 500 && kill <= other.at)) unexplained += 1
      }
    }
    return {
      kills: killedAt.length,
      deliveries: this.#accepted.length,
      lost,
      repeats,
      unexplained,
      latenessMs,
      suspects: this.#suspects.size,
      late,
    }
  }
}

export function seriesReportOf(found: SeriesFindings): string {
  const sorted = found.latenessMs.toSorted((a, b) => a - b)
  const at = (share: number) => ((sorted[Math.ceil(share * sorted.length) - 1] ?? 0) / 1000).toFixed(1)
  const lines = [
    `kills                                    ${found.kills}`,
    `deliveries accepted                      ${found.deliveries} to ${ENDPOINTS.length} endpoints`,
    `lost                                     ${found.lost.length}`,
    `received twice                           ${found.repeats}`,
    `received twice without a kill            ${found.unexplained}`,
    `after the last start (s): p50, p99, most ${at(0.5)}, ${at(0.99)}, ${at(1)}`,
    `in progress when a careful owner ended   ${found.suspects}`,
    `others later than ${SOON_MS / 1000} s                   ${found.late.length}`,
  ]
  return [...lines, ...found.late.slice(0, 20).map((one) => `  ${one}`)].join('\n')
}
