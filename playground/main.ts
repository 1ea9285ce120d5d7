/** `npm start`: the real controller on a real API server, with an organization and a receiver that verifies. */
import { fileURLToPath } from 'node:url'
import { ControlPlaneUnavailable } from './control-plane/binaries.ts'
import { parseOptions, USAGE, UsageError } from './options.mjs'
import { runPlayground } from './playground.ts'

const STATE = fileURLToPath(new URL('../.davit', import.meta.url))

async function main(): Promise<number> {
  try {
    const { help, ...options } = parseOptions(process.argv.slice(2), STATE)
    if (help) {
      process.stdout.write(`${USAGE}\n`)
      return 0
    }
    const stopping = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort())
    // The output is closed: the terminal was closed, or `| head` has ended.
    process.stdout.on('error', () => stopping.abort())
    return await runPlayground(options, {
      stopping: stopping.signal,
      write: (line) => process.stdout.write(`${line}\n`),
      colored: process.stdout.isTTY === true && process.stdout.hasColors(),
    })
  } catch (error) {
    const expected = error instanceof UsageError || error instanceof ControlPlaneUnavailable
    process.stderr.write(
      `${expected ? error.message : error instanceof Error ? error.stack : String(error)}\n`,
    )
    return 1
  }
}

// Exits immediately, even if something is still starting; children end with this process.
process.exit(await main())
