import { afterAll, beforeAll, expect, it } from 'vitest'
import { tellFigures } from '../hostile/figures.ts'
import { canaryFiguresOf } from './canary-figures.ts'
import { type CanaryRun, playCanary } from './canary-run.ts'
import { evidenceOf, PLACES } from './evidence.ts'
import { type Findings, findLeaks } from './findings.ts'
import { plantLeaks, unseenPlants } from './plants.ts'
import { reportOf } from './report.ts'
import { type Scene, setScene } from './scene.ts'

const LIMIT_MS = 300_000
const SEED = 23

let scene: Scene
let run: CanaryRun
let findings: Findings
const said: string[] = []

// A control plane of its own, whose files and logs are looked through.
beforeAll(async () => {
  scene = await setScene(2)
  const say = (line: string) => said.push(line)
  run = await playCanary(scene, {
    seed: SEED,
    credentials: 5,
    refused: 6,
    lifeMs: 2000,
    stormMs: 3000,
    calmMs: 15_000,
    say,
  })
  findings = await findLeaks(run.book, evidenceOf(scene))
  tellFigures('canary', { seed: SEED, ...canaryFiguresOf(run, findings) })
}, LIMIT_MS)

afterAll(() => scene?.stop())

it('finds no secret anywhere but in the account, whatever AWS answers and whenever a process is killed', () => {
  expect(findings.leaks, `${said.join('\n')}\n${reportOf(run, findings)}`).toEqual([])
})

it('has sent secrets both ways, through faults and kills, and looked in every place', () => {
  expect(run.stored.kubectl).toBeGreaterThan(5)
  expect(run.stored.rest).toBeGreaterThan(5)
  // Storms last for a time, and a busy machine calls AWS less often in it.
  expect(run.faults).toBeGreaterThan(5)
  expect(run.kills).toBeGreaterThan(0)
  expect(PLACES.filter((place) => !findings.looked.get(place))).toEqual(['files of the processes'])
  expect(scene.aws.emulator.received.dropped).toBe(0)
  expect(scene.aws.emulator.defects).toEqual([])
})

it('would have found a secret in any form in any place', async () => {
  expect(await unseenPlants(await plantLeaks(scene, SEED), evidenceOf(scene))).toEqual([])
}, 60_000)
