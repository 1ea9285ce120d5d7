/** Runs `davit api` as a process: health, metrics, and the end. */
import { VERSION } from '../lib/version.ts'
import { type RunningApi, startApi } from './api.ts'
import type { Environment } from './config.ts'
import { createApiDependencies } from './dependencies.ts'
import { registerApiGauges, registerCertificate, registerReadiness } from './gauges.ts'
import {
  type CommandSettings,
  type OpsServer,
  runCommand,
  startOpsServer,
  withSettingName,
} from './process.ts'

/** @returns the exit code: 0 after a signal, 1 when it cannot run @throws ConfigError */
export function runApi(environment: Environment): Promise<number> {
  return runCommand('api', environment, run)
}

/** Runs until a signal. @throws Error without a connection to a cluster, or if an address cannot be listened on */
async function run({ config, log }: CommandSettings, ending: Promise<string>): Promise<void> {
  const dependencies = await createApiDependencies(config, log, VERSION)
  const stopping = new AbortController()
  let ops: OpsServer | undefined
  let api: RunningApi | undefined
  let started: Promise<unknown> = Promise.resolve()
  try {
    const problems = () => (stopping.signal.aborted ? ['shutting down'] : problemsOf(api))
    registerReadiness(dependencies.metrics, problems)
    registerCertificate(dependencies.metrics, dependencies.certificate)
    const answers = { metrics: dependencies.metrics, live: () => [], ready: problems }
    ops = await withSettingName('DAVIT_OPS_ADDRESS', startOpsServer({ ...config.ops, ...answers }))
    const starting = startApi({ config, dependencies, version: VERSION, stopping: stopping.signal }).then(
      (running) => {
        api = running
        registerApiGauges(dependencies.metrics, running, config)
        return running
      },
    )
    started = starting.catch(() => undefined)
    const failed = starting.then((running) =>
      Promise.race([running.ended, running.listening.then(() => running.ended)]),
    )
    log.info('shutdown_started', 'shutting down', { signal: await Promise.race([ending, failed]) })
  } finally {
    stopping.abort()
    await started
    await api?.stop()
    await ops?.close()
    await dependencies.close()
  }
}

function problemsOf(api: RunningApi | undefined): string[] {
  return api?.problems() ?? ['waiting for the API server']
}
