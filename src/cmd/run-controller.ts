/** Runs the controller as a process: health, metrics, and the end. */

import { VERSION } from '../lib/version.ts'
import type { Environment } from './config.ts'
import { type RunningController, startController } from './controller.ts'
import { createControllerDependencies } from './dependencies.ts'
import { registerControllerGauges, registerReadiness } from './gauges.ts'
import {
  type CommandSettings,
  type OpsServer,
  runCommand,
  startOpsServer,
  withSettingName,
} from './process.ts'

/** @returns the exit code: 0 once it was told to end, 1 when it cannot run @throws ConfigError */
export function runController(environment: Environment): Promise<number> {
  return runCommand('controller', environment, run)
}

/** Until a signal comes. @throws Error when there is no way to a cluster, a file or an address is not to be had */
async function run({ config, secrets, log }: CommandSettings, ending: Promise<string>): Promise<void> {
  const world = await createControllerDependencies({ config, secrets, log, version: VERSION })
  let ops: OpsServer | undefined
  let controller: RunningController | undefined
  try {
    const problems = () => controller?.problems() ?? ['the API server did not answer yet']
    registerReadiness(world.metrics, problems)
    const answers = { metrics: world.metrics, live: () => [], ready: problems }
    ops = await withSettingName('DAVIT_OPS_ADDRESS', startOpsServer({ ...config.ops, ...answers }))
    const starting = startController({ config, world, version: VERSION }).then((running) => {
      controller = running
      registerControllerGauges(world.metrics, running, config)
      return Promise.race([running.ready, running.ended])
    })
    const failed = starting.then(() => controller?.ended)
    log.info('Ending', { signal: await Promise.race([ending, failed]) })
  } finally {
    await controller?.stop()
    await ops?.close()
    await world.close()
  }
}
