/** `npm start`: the real controller on a real API server, with an organization and a receiver that verifies. */
import { ControlPlaneUnavailable } from './control-plane-binaries.ts'
import { parseOptions, USAGE, UsageError } from './options.ts'
import { runPlayground } from './playground.ts'

async function main(): Promise<number> {
  try {
    const { help, ...options } = parseOptions(process.argv.slice(2))
    if (help) {
      process.stdout.write(`${USAGE}\n`)
      return 0
    }
    const stopping = new AbortController()
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => stopping.abort())
    return await runPlayground(options, stopping.signal)
  } catch (error) {
    const expected = error instanceof UsageError || error instanceof ControlPlaneUnavailable
    process.stderr.write(
      `${expected ? error.message : error instanceof Error ? error.stack : String(error)}\n`,
    )
    return 1
  }
}

process.exitCode = await main()
