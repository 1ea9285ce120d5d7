/** The command `davit config`: checks the settings, and prints those that are in effect. */
import { type Environment, effectiveSettings } from './config.ts'

/** @returns the exit code @throws ConfigError with every mistake */
export async function runPrintConfig(environment: Environment): Promise<number> {
  const lines = effectiveSettings(environment).map(({ variable, value, source }) => {
    if (value === undefined) return `# ${variable} is not set`
    return `${variable}=${value}${source === 'default' ? '  # default' : ''}`
  })
  process.stdout.write(`${lines.join('\n')}\n`)
  return 0
}
