/**
 * Davit under load on a separate control plane, while its controller is killed, the API server is stopped and etcd is compacted;
 * in the end everything settles and is compared.
 */

import { mkdtemp } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import { QUIET_MS, untilAtRest } from './at-rest.ts'
import { ControllerProcess } from './controller-process.ts'
import { type Findings, findingsOf } from './findings.ts'
import { type Life, type PlanOptions, planLives } from './plan.ts'
import { Publisher } from './publisher.ts'
import { Receivers } from './receivers.ts'
import { SeededRandom } from './seeded-random.ts'
import { ENDPOINTS, isPoisoned, type Setting, setUp } from './setting.ts'
import { switchOf, Toggler } from './toggler.ts'

export type ChaosOptions = PlanOptions & {
  seed: number
  eventsPerSecond: number
  opsPort: number
  /** Prints progress, line by line. */
  say: (line: string) => void
}

/** One kill of the controller. Times by `performance.now()`. */
export type Death = { run: number; life: Life; at: number; readyAfterMs: number | undefined; outage: boolean }

/** The publisher waits if more deliveries than this have not been received. */
const MAX_BEHIND = 300

export class ChaosRun {
  readonly deaths: Death[] = []
  readonly #options: ChaosOptions
  readonly #controlPlane: ControlPlane
  readonly #random: SeededRandom
  #run = 0
  #logPath = ''

  constructor(controlPlane: ControlPlane, options: ChaosOptions) {
    this.#controlPlane = controlPlane
    this.#options = options
    this.#random = new SeededRandom(options.seed)
  }

  async play(): Promise<Findings> {
    this.#logPath = join(await mkdtemp(join(tmpdir(), 'davit-chaos-')), 'controller.log')
    this.#options.say(`seed ${this.#options.seed}; the controller's log is ${this.#logPath}`)
    const receivers = await Receivers.start({
      random: this.#random.fork(),
      run: () => this.#run,
      isPoisoned,
    })
    const setting = await setUp(this.#controlPlane, receivers.url)
    let controller = this.#startController(setting)
    const toggler = new Toggler({
      set: switchOf(setting.api, { namespace: setting.organization, name: 'paused' }),
      random: this.#random.fork(),
    })
    const publisher: Publisher = new Publisher({
      log: setting.eventLog,
      api: setting.api,
      organization: setting.organization,
      targets: () => setting.targets.filter(({ name }) => name !== 'paused' || toggler.enabled),
      mayGoOn: () => publisher.published - leastTaken(receivers) < MAX_BEHIND,
      perSecond: this.#options.eventsPerSecond,
      random: this.#random.fork(),
    })
    try {
      await controller.untilReady()
      publisher.start()
      toggler.start()
      for (const life of planLives(this.#random.fork(), this.#options)) {
        await this.#live(controller, life)
        controller = this.#startController(setting)
      }
      this.#options.say('no more kills; everything comes to rest')
      await controller.untilReady()
      await toggler.stop()
      await publisher.stop()
      const rested = await untilAtRest([controller])
      await controller.stop()
      controller = this.#startController(setting)
      await controller.untilReady()
      await sleep(QUIET_MS)
      const { deaths } = this
      return await findingsOf({ setting, receivers, publisher, toggler, deaths, rested })
    } finally {
      if (controller.running) await controller.kill()
      await receivers.close()
      await setting.close()
    }
  }

  #startController(setting: Setting): ControllerProcess {
    this.#run += 1
    return new ControllerProcess({
      kubeconfigPath: this.#controlPlane.kubeconfigPath,
      namespace: setting.namespace,
      replica: 'chaos',
      opsPort: this.#options.opsPort,
      // Turns thirty seconds into thirty milliseconds.
      waitScale: 0.001,
      logPath: this.#logPath,
    })
  }

  async #live(controller: ControllerProcess, life: Life): Promise<void> {
    const ready = life.killed === 'load' && (await controller.readyOrEnded())
    const readyAfterMs = ready ? performance.now() - controller.startedAt : undefined
    const trouble = this.#makeTrouble(life)
    await sleep(life.killAfterMs)
    await controller.kill()
    const death = {
      run: this.#run,
      life,
      at: performance.now(),
      readyAfterMs,
      outage: life.trouble?.kind === 'outage',
    }
    this.deaths.push(death)
    const during = life.trouble ? `, ${life.trouble.kind} after ${life.trouble.afterMs} ms` : ''
    this.#options.say(`run ${death.run} killed ${life.killAfterMs} ms after its ${life.killed}${during}`)
    await trouble
  }

  async #makeTrouble(life: Life): Promise<void> {
    const { trouble } = life
    if (!trouble) return
    await sleep(trouble.afterMs)
    if (trouble.kind === 'compaction') {
      await this.#controlPlane.compactEtcd()
      return
    }
    await this.#controlPlane.stopApiServer()
    await sleep(trouble.outageMs)
    await this.#controlPlane.startApiServer()
  }
}

function leastTaken(receivers: Receivers): number {
  // The paused endpoint does not get all; poisoned events are never received successfully.
  const counts = ENDPOINTS.filter(({ name }) => name !== 'paused').map(
    ({ name }) => receivers.taken.get(name)?.size ?? 0,
  )
  return Math.min(...counts)
}
