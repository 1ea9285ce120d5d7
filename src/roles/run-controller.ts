/** Runs the controller as a process: settings, signals, health and metrics. */
import { type OpsServer, startOpsServer } from '../adapters/prometheus/ops-server.ts'
import { createClock } from '../adapters/system/clock.ts'
import { createLog, type StructuredLog } from '../adapters/system/log.ts'
import { type Config, type Environment, parseConfig, parseSecrets, type Secrets } from '../config.ts'
import { type RunningController, startController } from './controller.ts'
import { registerGauges } from './gauges.ts'
import { reportStrayErrors } from './last-words.ts'
import { VERSION } from './version.ts'
import { createWorld } from './world.ts'

type Settings = { config: Config; secrets: Secrets; log: StructuredLog }

/** @returns the exit code: 0 once it was told to end, 1 when it cannot run @throws ConfigError */
export async function runControllerRole(environment: Environment): Promise<number> {
  const config = parseConfig(environment)
  const secrets = parseSecrets(environment)
  const log = createLog({ level: config.logLevel, clock: createClock() })
  reportStrayErrors(process, { log, exit: (code) => process.exit(code) })
  const ending = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  log.info('Starting', { role: 'controller', version: VERSION, config })
  try {
    await run({ config, secrets, log }, ending)
    log.info('Ended')
    return 0
  } catch (error) {
    log.error('The controller cannot run', { error })
    return 1
  } finally {
    log.flush()
  }
}

/** Until a signal comes. @throws Error when there is no way to a cluster, a file or an address is not to be had */
async function run({ config, secrets, log }: Settings, ending: Promise<string>): Promise<void> {
  const world = await createWorld({ config, secrets, log, version: VERSION })
  let ops: OpsServer | undefined
  let controller: RunningController | undefined
  try {
    ops = await startOpsServer({
      ...config.ops,
      metrics: world.metrics,
      live: () => [],
      ready: () => controller?.problems() ?? ['the API server did not answer yet'],
    })
    const starting = startController({ config, world, version: VERSION }).then((running) => {
      controller = running
      registerGauges(world.metrics, running)
      return running.ready
    })
    const failed = starting.then(() => new Promise<never>(() => undefined))
    log.info('Ending', { signal: await Promise.race([ending, failed]) })
  } finally {
    await controller?.stop()
    await ops?.close()
    await world.close()
  }
}
