/**
 * `npm run test:canary [-- --seed=N --secrets=N]`: a thousand secrets through everything that Davit does with them, by kubectl and
 * by REST, while AWS has every fault and processes are killed; none of them may be found anywhere but in the account. The long form
 * of what `npm test` does briefly.
 */
import { parseArgs } from 'node:util'
import { keep } from '../hostile/long/results.ts'
import { canaryFiguresOf } from './canary-figures.ts'
import { playCanary } from './canary-run.ts'
import { evidenceOf } from './evidence.ts'
import { findLeaks } from './findings.ts'
import { plantLeaks, unseenPlants } from './plants.ts'
import { reportOf } from './report.ts'
import { setScene } from './scene.ts'

const { values } = parseArgs({
  options: { seed: { type: 'string' }, secrets: { type: 'string', default: '1000' } },
})
const ORGANIZATIONS = 5
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const started = performance.now()

const scene = await setScene(ORGANIZATIONS)
try {
  const run = await playCanary(scene, {
    seed,
    credentials: Math.ceil(Number(values.secrets) / (4 * ORGANIZATIONS)),
    refused: 30,
    lifeMs: 12_000,
    stormMs: 15_000,
    calmMs: 150_000,
    say,
  })
  const findings = await findLeaks(run.book, evidenceOf(scene))
  const planted = await plantLeaks(scene, seed)
  const unseen = await unseenPlants(planted, evidenceOf(scene))
  const { defects } = scene.aws.emulator
  process.stdout.write(`\nseed ${seed}\n${reportOf(run, findings)}\n`)
  process.stdout.write(
    `planted leaks that were not found: ${unseen.length === 0 ? 'none' : unseen.join(', ')}\n`,
  )
  if (defects.length > 0) process.stdout.write(`the double of AWS lacks ${JSON.stringify(defects)}\n`)
  await keep('canary', { command: 'npm run test:canary', seed, figures: canaryFiguresOf(run, findings) })
  process.exitCode = findings.leaks.length + unseen.length + defects.length === 0 ? 0 : 1
} finally {
  await scene.stop()
}

function say(line: string): void {
  const at = ((performance.now() - started) / 1000).toFixed(1).padStart(6)
  process.stdout.write(`${at} s  ${line}\n`)
}
