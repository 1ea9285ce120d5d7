/** The command `davit`: picks the role and runs it until it is told to end. No logic. */
import { ConfigError, readEnvironment } from './config.ts'
import { runBakeRole } from './roles/bake.ts'
import { runApiRole } from './roles/run-api.ts'
import { runControllerRole } from './roles/run-controller.ts'

const ROLES: Readonly<Record<string, typeof runControllerRole>> = {
  controller: runControllerRole,
  api: runApiRole,
  bake: runBakeRole,
}

const [role = '', ...rest] = process.argv.slice(2)
const run = Object.hasOwn(ROLES, role) && rest.length === 0 ? ROLES[role] : undefined
if (run) {
  try {
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
