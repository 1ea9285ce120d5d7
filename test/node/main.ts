/** On a real node: see the usage. Prints what it found, and fails when something was not as it must be. */

import { checkBakes } from './bakes.ts'
import { createFindings } from './findings.ts'
import { parseNodeOptions, USAGE, UsageError } from './node-options.ts'
import { checkPulls } from './pulls.ts'

async function main(): Promise<number> {
  try {
    const options = parseNodeOptions(process.argv.slice(2))
    const findings = createFindings((line) => process.stdout.write(`${line}\n`))
    if (options.parts.includes('pulls')) await checkPulls(options, findings)
    if (options.parts.includes('bakes')) await checkBakes(options, findings)
    return findings.wrong === 0 ? 0 : 1
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    process.stderr.write(`${error.message}\n\n${USAGE}\n`)
    return 2
  }
}

process.exitCode = await main()
