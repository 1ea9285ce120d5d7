/** What every role has as a process: settings, a log, signals, and an exit code. */
import { createClock } from '../lib/system-clock.ts'
import { createLogger, type StructuredLogger } from '../lib/system-log.ts'
import { VERSION } from '../lib/version.ts'
import { type Config, type Environment, parseConfig, parseSecrets, type Secrets } from './config.ts'
import { setHeapGrowth } from './heap-growth.ts'
import { logUncaughtErrors } from './last-words.ts'

export type CommandSettings = { config: Config; secrets: Secrets; log: StructuredLogger }

/** Runs until `ending` resolves, with the name of a signal. @throws Error when it cannot run */
export type CommandBody = (settings: CommandSettings, ending: Promise<string>) => Promise<void>

/** @returns the exit code: 0 once it was told to end, 1 when it cannot run @throws ConfigError */
export async function runCommand(name: string, environment: Environment, role: CommandBody): Promise<number> {
  const config = parseConfig(environment)
  const secrets = parseSecrets(environment)
  const log = createLogger({ level: config.logLevel, clock: createClock() })
  setHeapGrowth()
  logUncaughtErrors(process, { log, exit: (code) => process.exit(code) })
  const ending = new Promise<string>((resolve) => {
    for (const signal of ['SIGTERM', 'SIGINT'] as const) process.once(signal, () => resolve(signal))
  })
  log.info('Starting', { role: name, version: VERSION, config })
  try {
    await role({ config, secrets, log }, ending)
    log.info('Ended')
    return 0
  } catch (error) {
    log.error('It cannot run', { role: name, error })
    return 1
  } finally {
    await log.close()
  }
}
