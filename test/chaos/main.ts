/** `npm run test:chaos [-- --seed=N --kills=N]`: the long form; prints a table and fails when a promise was broken. */
import { parseArgs } from 'node:util'
import { startControlPlane } from '../../src/playground/control-plane.ts'
import { ChaosRun } from './chaos-run.ts'
import { freePort } from './free-port.ts'
import { reportOf } from './report.ts'

const { values } = parseArgs({ options: { seed: { type: 'string' }, kills: { type: 'string' } } })
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const kills = Number(values.kills ?? 100)
const started = performance.now()
const controlPlane = await startControlPlane()
try {
  const run = new ChaosRun(controlPlane, {
    seed,
    kills,
    outages: 0.12,
    compactions: 0.25,
    eventsPerSecond: 40,
    opsPort: await freePort(),
    say: (line) => {
      const at = ((performance.now() - started) / 1000).toFixed(1).padStart(6)
      process.stdout.write(`${at} s  ${line}\n`)
    },
  })
  const findings = await run.play()
  process.stdout.write(`\nseed ${seed}\n${reportOf(findings)}\n`)
  process.exitCode = findings.wrong.length === 0 ? 0 : 1
} finally {
  await controlPlane.stop()
}
