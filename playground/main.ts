/** `npm start`: the real controller on a real API server, with an organization and a receiver that verifies. */
import { fileURLToPath } from 'node:url'
import { ControlPlaneUnavailable } from './control-plane/binaries.ts'
import { isInForeground, readKeys } from './keys.ts'
import { parseOptions, USAGE, UsageError } from './options.mjs'
import { runPlayground } from './playground.ts'
import { createTerminal } from './terminal.ts'

const STATE = fileURLToPath(new URL('../.davit', import.meta.url))

async function main(): Promise<number> {
  const { stdin, stdout } = process
  try {
    const { help, yes: _, ...options } = parseOptions(process.argv.slice(2), STATE)
    if (help) {
      stdout.write(`${USAGE}\n`)
      return 0
    }
    const stopping = new AbortController()
    const stop = () => stopping.abort()
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, stop)
    // The output is closed: the terminal was closed, or `| head` has ended.
    stdout.on('error', stop)
    const isTerminal = stdout.isTTY === true && process.env.TERM !== 'dumb'
    const hasKeys = isTerminal && stdin.isTTY === true && isInForeground()
    return await runPlayground(options, {
      stopping: stopping.signal,
      stop,
      write: (line) => stdout.write(`${line}\n`),
      colored: stdout.isTTY === true && stdout.hasColors(),
      terminal: isTerminal ? createTerminal(stdout) : undefined,
      readKeys: hasKeys ? (onKey) => readKeys(stdin.on('error', stop), onKey) : undefined,
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
