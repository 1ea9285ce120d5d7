// The options of `npm start`. In plain JavaScript, since the set-up reads them before there is a Node that strips types.

import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

/** Carries a message for the user. */
export class UsageError extends Error {
  name = 'UsageError'
}

export const USAGE = `usage: npm start -- [--once] [--real-waits] [--controllers <n>] [--no-bakes] [--state <folder>]
                    [--yes]

  --once            exit with a summary after ten deliveries and two bakes; the exit code is 1 if a
                    signature fails verification or a bake has an unexpected result
  --real-waits      use the documented delays between attempts (30 s, 2 m, 10 m, ...); by default, the
                    delays are a twentieth of these
  --controllers <n> number of controllers that share the work, 1 to 9 (default 1); with several, you can
                    kill one
  --no-bakes        skip the two example bakes and the Debian packages that they need
  --state <folder>  folder for logs and playground.json (default .davit); a second playground needs a
                    different folder
  --yes             install what is missing without asking
  --help            show this help`

/**
 * @param {readonly string[]} args
 * @param {string} standard state folder unless one is given
 * @throws {UsageError}
 */
export function parseOptions(args, standard) {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        once: { type: 'boolean', default: false },
        'real-waits': { type: 'boolean', default: false },
        controllers: { type: 'string', default: '1' },
        'no-bakes': { type: 'boolean', default: false },
        state: { type: 'string', default: standard },
        yes: { type: 'boolean', short: 'y', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { once, 'real-waits': realWaits, 'no-bakes': noBakes, state, yes, help } = values
    if (state === '') throw new Error("Option '--state' must be a folder")
    if (!/^[1-9]$/.test(values.controllers))
      throw new Error("Option '--controllers' must be a number from 1 to 9")
    const controllers = Number(values.controllers)
    return { once, realWaits, controllers, bakes: !noBakes, state: resolve(state), yes, help }
  } catch (error) {
    throw new UsageError(`${error.message}\n\n${USAGE}`)
  }
}
