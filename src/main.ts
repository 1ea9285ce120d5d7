/** The command `davit`: picks the role and runs it until it is told to end. No logic. */
import { ConfigError, type Environment, readEnvironment } from './config.ts'

type Role = (environment: Environment) => Promise<number>

/** Loaded when they are picked: a bake, which begins often, needs a small part of what the others do. */
const ROLES: Readonly<Record<string, () => Promise<Role>>> = {
  controller: async () => (await import('./roles/run-controller.ts')).runController,
  api: async () => (await import('./roles/run-api.ts')).runApi,
  bake: async () => (await import('./roles/bake.ts')).runBake,
  check: async () => (await import('./roles/check.ts')).runCheck,
  stop: async () => (await import('./roles/uninstall.ts')).runStop,
  cleanup: async () => (await import('./roles/uninstall.ts')).runCleanup,
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
  process.stderr.write(`usage: davit ROLE\n\nroles: ${Object.keys(ROLES).join(', ')}\n`)
  process.exitCode = 2
}
