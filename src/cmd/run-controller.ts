/** Runs `davit controller` as a process: health, metrics, and the end. */
import { VERSION } from '../lib/version.ts'
import type { Environment } from './config.ts'
import { createControllerDependencies } from './dependencies.ts'
import { registerControllerGauges, registerReadiness } from './gauges.ts'
import {
  type CommandSettings,
  type OpsServer,
  runCommand,
  startOpsServer,
  withSettingName,
} from './process.ts'
import { type RunningController, startController } from './start-controller.ts'

/** @returns the exit code: 0 after a signal, 1 when it cannot run @throws ConfigError */
export function runController(environment: Environment): Promise<number> {
  return runCommand('controller', environment, run)
}

/** Runs until a signal. @throws Error without a connection to a cluster, or if a file or an address cannot be used */
async function run({ config, secrets, log }: CommandSettings, ending: Promise<string>): Promise<void> {
  const dependencies = await createControllerDependencies({ config, secrets, log, version: VERSION })
  let ops: OpsServer | undefined
  let controller: RunningController | undefined
  try {
    const problems = () => controller?.problems() ?? ['waiting for the API server']
    registerReadiness(dependencies.metrics, problems)
    const answers = { metrics: dependencies.metrics, live: () => [], ready: problems }
    ops = await withSettingName('DAVIT_OPS_ADDRESS', startOpsServer({ ...config.ops, ...answers }))
    const starting = startController({ config, dependencies, version: VERSION }).then((running) => {
      controller = running
      registerControllerGauges(dependencies.metrics, running, config)
      return Promise.race([running.ready, running.ended])
    })
    const failed = starting.then(() => controller?.ended)
    log.info('shutdown_started', 'shutting down', { signal: await Promise.race([ending, failed]) })
  } finally {
    await controller?.stop()
    await ops?.close()
    await dependencies.close()
  }
}
