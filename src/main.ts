/** The command `davit`: picks a command and runs it. */
import { ConfigError, type Environment, readEnvironment } from './cmd/config.ts'

type Run = (environment: Environment) => Promise<number>

type Command = {
  about: string
  /** Loads its code when picked: bakes start often and need only a small part. */
  load: () => Promise<Run>
}

const COMMANDS: Readonly<Record<string, Command>> = {
  controller: {
    about: 'deliver webhooks, store registry credentials, and bake boxes',
    load: async () => (await import('./cmd/run-controller.ts')).runController,
  },
  api: { about: 'serve the REST API', load: async () => (await import('./cmd/run-api.ts')).runApi },
  config: {
    about: 'check the settings of the environment, and print those in effect',
    load: async () => (await import('./cmd/print-config.ts')).runPrintConfig,
  },
  receiver: {
    about: 'receive webhooks, verify them, and print a line for each',
    load: async () => (await import('./cmd/run-receiver.ts')).runReceiver,
  },
  check: {
    about: 'check an installation, as helm test does',
    load: async () => (await import('./cmd/check.ts')).runCheck,
  },
  bake: {
    about: 'pull the images of a box (run by the Jobs of the controller)',
    load: async () => (await import('./cmd/bake.ts')).runBake,
  },
  stop: {
    about: 'stop the Pods of a release (run by helm uninstall)',
    load: async () => (await import('./cmd/uninstall.ts')).runStop,
  },
  cleanup: {
    about: 'remove what a release leaves behind (run by helm uninstall)',
    load: async () => (await import('./cmd/uninstall.ts')).runCleanup,
  },
}

async function main([name = '', ...rest]: readonly string[]): Promise<number> {
  if (['--help', '-h', 'help'].includes(name) && rest.length === 0) return print(process.stdout, usage(), 0)
  if (name === '--version' && rest.length === 0)
    return print(process.stdout, (await import('./lib/version.ts')).VERSION, 0)
  const command = Object.hasOwn(COMMANDS, name) ? COMMANDS[name] : undefined
  if (!command || rest.length > 0) return print(process.stderr, complaint(name, rest, command), 2)
  try {
    const run = await command.load()
    return await run(readEnvironment())
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return print(process.stderr, `davit: ${error.message}`, 2)
  }
}

function complaint(name: string, rest: readonly string[], command: Command | undefined): string {
  if (name === '') return usage()
  const what = command ? `unexpected argument ${rest[0]}` : `unknown command ${name}`
  return `davit: ${what}\nRun davit --help for the commands.`
}

function usage(): string {
  const width = Math.max(...Object.keys(COMMANDS).map((name) => name.length))
  const lines = Object.entries(COMMANDS).map(([name, { about }]) => `  ${name.padEnd(width)}  ${about}`)
  return [
    'usage: davit COMMAND',
    '',
    'Commands:',
    ...lines,
    '',
    'Options:',
    '  --help, -h  print this text',
    '  --version   print the version',
    '',
    'Commands read their settings from environment variables: see docs/reference/cli.md.',
  ].join('\n')
}

function print(stream: NodeJS.WriteStream, text: string, code: number): number {
  stream.write(`${text}\n`)
  return code
}

process.exitCode = await main(process.argv.slice(2))
