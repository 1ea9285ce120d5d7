import { resolve } from 'node:path'
import { parseArgs } from 'node:util'

export type PlaygroundOptions = {
  /** Ends after ten deliveries and two bakes, with a summary. */
  once: boolean
  /** The documented waits instead of short ones. */
  realWaits: boolean
  controllers: number
  /** Folder for its logs and `playground.json`; only one playground at a time can use it. */
  state: string
}

/** Carries a message for the user. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export const USAGE = `usage: npm start -- [--once] [--real-waits] [--controllers <n>] [--state <folder>]

  --once            end after ten deliveries and two bakes, with a summary; exit code 1 if a signature
                    did not verify, or a bake did not end as it must
  --real-waits      wait between attempts as documented (30 s, 2 m, 10 m, ...), not a twentieth of it
  --controllers <n> so many of them share the work, 1 to 9, one by default; of several you may kill one
  --state <folder>  where its logs and playground.json are, .davit by default; a second playground
                    needs a folder of its own
  --help            show this`

/** @param standard state folder unless one is given @throws UsageError */
export function parseOptions(
  args: readonly string[],
  standard: string,
): PlaygroundOptions & { help: boolean } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        once: { type: 'boolean', default: false },
        'real-waits': { type: 'boolean', default: false },
        controllers: { type: 'string', default: '1' },
        state: { type: 'string', default: standard },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    const { once, 'real-waits': realWaits, state, help } = values
    if (state === '') throw new Error("Option '--state' needs a folder")
    if (!/^[1-9]$/.test(values.controllers))
      throw new Error("Option '--controllers' needs a number from 1 to 9")
    return { once, realWaits, controllers: Number(values.controllers), state: resolve(state), help }
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
  }
}
