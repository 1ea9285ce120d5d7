/** The processes of Davit, which are killed at random moments and restarted; their metrics are kept. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { SeededRandom } from '../chaos/seeded-random.ts'
import type { Installation } from '../support/installation.ts'
import type { RoleProcess } from '../support/role-process.ts'

export type Settings = Readonly<Record<string, string>>

const SHORTEST_MS = 300
const SCRAPE_MS = 500
const SCRAPE_LIMIT_MS = 1000

export class MortalRoles {
  readonly #davit: Installation
  readonly #settings: Settings
  readonly port: number
  readonly #metrics: string[] = []
  #controller: RoleProcess
  #server: RoleProcess
  #serverLog: string
  kills = 0

  private constructor(davit: Installation, settings: Settings, first: FirstRoles) {
    this.#davit = davit
    this.#settings = settings
    this.#controller = first.controller
    this.#server = first.server.process
    this.#serverLog = first.server.logPath
    this.port = first.server.port
  }

  static async start(davit: Installation, settings: Settings): Promise<MortalRoles> {
    const controller = await davit.startController(settings)
    const server = await davit.startServer({ settings })
    await Promise.all([controller.untilReady(), server.process.untilReady()])
    return new MortalRoles(davit, settings, { controller, server })
  }

  get serverLog(): string {
    return this.#serverLog
  }

  /** The metrics of all processes. */
  get metrics(): readonly string[] {
    return this.#metrics
  }

  /**
   * Until `signal` aborts; both run then.
   * @param longestMs from the readiness of the one that was killed last
   */
  async killAtRandom(random: SeededRandom, longestMs: number, signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const waitMs = random.between(SHORTEST_MS, longestMs)
      await sleep(waitMs, undefined, { signal }).catch(() => undefined)
      if (signal.aborted) break
      this.kills += 1
      if (random.chance(0.5)) await this.#killController()
      else await this.#killServer()
    }
  }

  /** Until `signal` aborts, and once more. */
  async scrape(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#scrapeOnce()
      await sleep(SCRAPE_MS, undefined, { signal }).catch(() => undefined)
    }
    await this.#scrapeOnce()
  }

  async heard(url: string): Promise<void> {
    try {
      const answer = await fetch(url, { signal: AbortSignal.timeout(SCRAPE_LIMIT_MS) })
      this.#metrics.push(await answer.text())
    } catch {
      // It is dead at this moment.
    }
  }

  /** As Kubernetes ends pods, so that they have their last words. */
  async stop(): Promise<void> {
    await Promise.all([this.#controller.stop(), this.#server.stop()])
  }

  async #scrapeOnce(): Promise<void> {
    await Promise.all([this.heard(this.#controller.metricsUrl), this.heard(this.#server.metricsUrl)])
  }

  async #killController(): Promise<void> {
    await this.#controller.kill()
    this.#controller = await this.#davit.startController(this.#settings)
    await this.#controller.untilReady()
  }

  async #killServer(): Promise<void> {
    await this.#server.kill()
    const { process, logPath } = await this.#davit.startServer({ port: this.port, settings: this.#settings })
    this.#server = process
    this.#serverLog = logPath
    await process.untilReady()
  }
}

type FirstRoles = {
  controller: RoleProcess
  server: { process: RoleProcess; logPath: string; port: number }
}
