/** Runs the controller as a process: settings, signals, health and metrics. */
import { startOpsServer } from '../adapters/prometheus/ops-server.ts'
import { createClock } from '../adapters/system/clock.ts'
import { createLog } from '../adapters/system/log.ts'
import { type Environment, parseConfig, parseSecrets } from '../config.ts'
import { type RunningController, startController } from './controller.ts'
import { registerGauges } from './gauges.ts'
import { VERSION } from './version.ts'
import { createWorld } from './world.ts'

/** @returns the exit code, once it was told to end @throws ConfigError */
export async function runControllerRole(environment: Environment): Promise<number> {
  const config = parseConfig(environment)
  const secrets = parseSecrets(environment)
  const log = createLog({ level: config.logLevel, clock: createClock() })
  const ending = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  log.info('Starting', { role: 'controller', version: VERSION, config })
  const world = await createWorld({ config, secrets, log, version: VERSION })
  let controller: RunningController | undefined
  const ops = await startOpsServer({
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
  const signal = await Promise.race([ending, failed])
  log.info('Ending', { signal })
  await controller?.stop()
  await ops.close()
  await world.close()
  log.info('Ended')
  log.flush()
  return 0
}
