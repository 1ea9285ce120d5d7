/**
 * `npm run test:fuzz [-- --seed=N --examples=N]`: schemathesis generates valid and invalid requests from the OpenAPI document,
 * sends them to a REST server on a real API server, and validates each answer against the document.
 */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { ensurePythonVenv, NoPythonError } from '../support/python-venv.ts'
import type { OpenApiDocument } from '../support/rest-client.ts'
import { layBed } from './bed.ts'
import { runSchemathesis } from './schemathesis.ts'
import { faultsOf, sum, tableOf } from './verdict.ts'

const REQUIREMENTS = fileURLToPath(new URL('requirements.txt', import.meta.url))
const DOCUMENT = new URL('../../docs/reference/openapi.json', import.meta.url)
const EXAMPLES = 130

const { values } = parseArgs({ options: { seed: { type: 'string' }, examples: { type: 'string' } } })

try {
  process.exitCode = await fuzz()
} catch (error) {
  if (!(error instanceof NoPythonError)) throw error
  process.stderr.write(`${error.message}\n`)
  process.exitCode = 1
}

async function fuzz(): Promise<number> {
  const say = (line: string) => process.stdout.write(`${line}\n`)
  const seed = Number(values.seed ?? Date.now() % 1_000_000)
  const bin = await ensurePythonVenv({ name: 'fuzz', requirements: REQUIREMENTS, say })
  const folder = await mkdtemp(join(tmpdir(), 'davit-fuzz-'))
  let good = false
  await using stack = new AsyncDisposableStack()
  stack.defer(async () => {
    if (good) await rm(folder, { recursive: true, force: true })
    else say(`Logs and reports are in ${folder}`)
  })
  say('Starting a local Kubernetes API server and Davit')
  const bed = await layBed(folder, stack)
  const run = await runSchemathesis({
    bed,
    bin,
    folder,
    seed,
    examples: Number(values.examples ?? EXAMPLES),
  })
  const { report, statuses } = run
  const operations = await operationsOfDocument()
  const faults = faultsOf(run, operations)
  const { generated, unique_failures: failures } = report.test_cases
  say(`\n${tableOf(statuses, operations)}\n`)
  say(
    `${generated} cases, ${sum(statuses)} requests, ${failures} failures, ${report.running_time.toFixed(0)} s`,
  )
  say(`Again with: npm run test:fuzz -- --seed=${seed}`)
  for (const fault of faults) say(`WRONG: ${fault}`)
  good = faults.length === 0
  return good ? 0 : 1
}

/** Those that answers end: the stream is left out (schemathesis.toml). */
async function operationsOfDocument(): Promise<string[]> {
  const document = JSON.parse(await readFile(DOCUMENT, 'utf8')) as OpenApiDocument
  return Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods)
      .filter(([, { operationId }]) => operationId !== 'streamEvents')
      .map(([method]) => `${method.toUpperCase()} ${path}`),
  )
}
