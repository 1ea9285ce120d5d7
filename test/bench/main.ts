/** `npm run bench`: how fast Davit delivers, against the limit of the same writes on the same machine. */
import { mkdir, writeFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { commitOfTree } from '../support/commit.ts'
import { describeMachine, SETTINGS } from './machine.ts'
import { type BenchResult, renderResult } from './report.ts'
import { type ResultFile, resultFiles, sectionFiles } from './result-files.ts'
import { measureBurst } from './sections/burst.ts'
import { measureCredentials } from './sections/credentials.ts'
import { measureEngine } from './sections/engine.ts'
import { measureFailures } from './sections/failures.ts'
import { measureIsolation } from './sections/isolation.ts'
import { measureLogPages } from './sections/log-pages.ts'
import { measureMemory } from './sections/memory.ts'
import { measureObjects } from './sections/objects.ts'
import { measurePending } from './sections/pending.ts'
import { measureReplicas } from './sections/replicas.ts'
import { measureServer } from './sections/rest.ts'
import { measureRestPublishing } from './sections/rest-publishing.ts'
import { measureRestReplicas } from './sections/rest-replicas.ts'
import { measureRestTls } from './sections/rest-tls.ts'
import { measureSoak } from './sections/soak.ts'
import { type Plan, parsePlan, type SectionName, USAGE } from './settings.ts'

const RESULTS = new URL('../../bench/results/', import.meta.url)

function nothingMeasured(plan: Plan): BenchResult {
  return {
    name: plan.name,
    measuredAt: new Date().toISOString(),
    commit: commitOfTree(),
    about: { ...describeMachine(), ...SETTINGS },
    plan,
  }
}

/** Adds each section to the result when it is measured. */
async function measure(plan: Plan, result: BenchResult): Promise<void> {
  const has = (...names: SectionName[]) => names.some((name) => plan.sections.includes(name))
  if (has('saturation', 'latency')) result.engine = await measureEngine(plan)
  if (has('burst')) result.burst = await measureBurst(plan.rounds)
  if (has('objects')) result.objects = await measureObjects(plan.objectsSeconds)
  if (has('failures')) result.failures = await measureFailures(plan.objectsSeconds)
  if (has('isolation')) result.isolation = await measureIsolation(plan.isolation)
  if (has('memory')) result.memory = await measureMemory(plan.memory)
  if (has('replicas')) result.replicas = await measureReplicas(plan.replicas)
  if (has('pending')) result.pending = await measurePending(plan.pending)
  if (has('log')) result.log = await measureLogPages(plan.logLines)
  if (has('rest')) result.rest = await measureServer(plan)
  if (has('rest-publishing')) result.restPublishing = await measureRestPublishing(plan.restPublishing)
  if (has('rest-tls')) result.restTls = await measureRestTls(plan.restTls)
  if (has('rest-replicas')) result.restReplicas = await measureRestReplicas(plan.restReplicas)
  if (has('credentials')) result.credentials = await measureCredentials(plan.credentials)
  if (has('soak')) result.soak = await measureSoak(plan.soakMinutes)
}

async function write(files: readonly ResultFile[]): Promise<void> {
  await mkdir(RESULTS, { recursive: true })
  for (const { name, result } of files) {
    const file = fileURLToPath(new URL(`${name}.json`, RESULTS))
    await writeFile(file, `${JSON.stringify(result, null, 2)}\n`)
    process.stdout.write(`written to ${file}\n`)
  }
}

async function main(): Promise<void> {
  let plan: Plan
  try {
    plan = parsePlan(process.argv.slice(2))
  } catch (error) {
    process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n\n${USAGE}`)
    process.exitCode = 2
    return
  }
  const result = nothingMeasured(plan)
  try {
    await measure(plan, result)
  } catch (error) {
    // What was measured completely is not lost because a later section failed.
    await write([...sectionFiles(result), { name: `${plan.name}-unfinished`, result }])
    throw error
  } finally {
    process.stdout.write(`${renderResult(result)}\n`)
  }
  await write(resultFiles(result))
}

await main()
