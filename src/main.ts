/** The command `davit`: picks a role and runs it. */
import { ConfigError, type Environment, readEnvironment } from './cmd/config.ts'

type Role = (environment: Environment) => Promise<number>

/** Loaded when picked: bakes start often and need only a small part of the code. */
const ROLES: Readonly<Record<string, () => Promise<Role>>> = {
  controller: async () => (await import('./cmd/run-controller.ts')).runController,
  api: async () => (await import('./cmd/run-api.ts')).runApi,
  bake: async () => (await import('./cmd/bake.ts')).runBake,
  receiver: async () => (await import('./cmd/run-receiver.ts')).runReceiver,
  check: async () => (await import('./cmd/check.ts')).runCheck,
  stop: async () => (await import('./cmd/uninstall.ts')).runStop,
  cleanup: async () => (await import('./cmd/uninstall.ts')).runCleanup,
}

const [role = '', ...rest] = process.argv.slice(2)
const load = Object.hasOwn(ROLES, role) && rest.length === 0 ? ROLES[role] : undefined
if (load) {
  try {
    const run = await load()
    process.exitCode = await run(readEnvironment())
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    process.stderr.write(`davit: ${error.message}\n`)
    process.exitCode = 2
  }
} else {
  process.stderr.write(`usage: davit COMMAND\n\ncommands: ${Object.keys(ROLES).join(', ')}\n`)
  process.exitCode = 2
}
