import { parseArgs } from 'node:util'

export type PlaygroundOptions = {
  /** Ends after ten deliveries, with a summary. */
  once: boolean
  /** The documented waits instead of short ones. */
  realWaits: boolean
}

/** Thrown with a text for the user. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export const USAGE = `usage: npm start -- [--once] [--real-waits]

  --once        end after ten deliveries, with a summary; exit code 1 if one did not verify
  --real-waits  wait between attempts as long as documented (30 s, 2 m, 10 m, ...) instead of a twentieth of it`

/** @throws UsageError */
export function parseOptions(args: readonly string[]): PlaygroundOptions & { help: boolean } {
  try {
    const { values } = parseArgs({
      args: [...args],
      options: {
        once: { type: 'boolean', default: false },
        'real-waits': { type: 'boolean', default: false },
        help: { type: 'boolean', short: 'h', default: false },
      },
    })
    return { once: values.once, realWaits: values['real-waits'], help: values.help }
  } catch (error) {
    throw new UsageError(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
  }
}
