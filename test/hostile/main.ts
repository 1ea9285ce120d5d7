/**
 * `npm run test:hostile [-- --only PART,... --seed N --minutes N]`: the hostile tests at full length. Each part writes its
 * figures to test/hostile/results, from which `npm run generate` makes test/reports/guarantees.md; fails if a test fails.
 *   hostile        the tests of this folder, with more cases than in `npm test`
 *   tests          all others that test/reports/guarantees.md names
 *   new            those among both that it names since they were run
 *   histories      thousands of schedules of replicas, handoffs, REST servers and watches, in simulated time
 *   neighbours     999 endpoints next to a hanging one
 *   tenth          a tenth of 300 events a second to a hanging endpoint
 *   large          5,000 endpoints in one organization
 *   certificates   a hundred thousand attempts with invalid certificates
 *   kills          two controllers that are killed five hundred times each
 *   storms         watches that break in every way, for five minutes each, of a controller and of a REST server
 *   soak           an hour of good and hostile receivers, and of good and hostile clients of a REST server
 * `--report FILE` counts the cases of both kinds of tests in the report of `npm test -- --reporter=json --outputFile.json=FILE`,
 * and runs none; `--figures FOLDER` keeps the figures of that run, if FIGURES_FOLDER was set to the folder.
 */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { parseArgs } from 'node:util'
import { brokenLimits } from '../../tools/docgen/guarantees/guarantees.ts'
import { casesRun, type FoundTests, figuresOf, testRuns } from '../../tools/docgen/guarantees/results.ts'
import { measureIsolation } from '../bench/sections/isolation.ts'
import type { Figures } from './figures.ts'
import { besideFigures, besideMadeFigures } from './long/beside-figures.ts'
import { badCertificates } from './long/certificates.ts'
import { killsOf } from './long/kills.ts'
import { LARGE, measureLargeOrganization } from './long/large-organization.ts'
import { MANY_ENDPOINTS, measureManyEndpoints } from './long/many-endpoints.ts'
import { forget, keep } from './long/results.ts'
import { runTests } from './long/run-tests.ts'
import { soak } from './long/soak.ts'
import { fileOf, references } from './named-tests.ts'

/** Rounds differ most under the highest load. */
const TENTH = { rounds: 14, seconds: 20 }
/** Parts that are tests. */
const COUNTED = ['hostile', 'tests']
/** Histories of each property: for shards there are four properties. */
const HISTORIES = {
  SHARD_HISTORIES: {
    file: 'src/ha/shard-histories.test.ts',
    what: 'of shards',
    each: 1000,
    properties: 4,
  },
  HAND_OVER_HISTORIES: {
    file: 'src/webhooks/delivery/shard-handoff.test.ts',
    what: 'of hand-overs',
    each: 2000,
    properties: 1,
  },
  KEPT_HISTORIES: {
    file: 'src/webhooks/delivery/coordinated-handoff.test.ts',
    what: 'of shards with the log',
    each: 500,
    properties: 1,
  },
  REST_HISTORIES: {
    file: 'src/server/replica-histories.test.ts',
    what: 'of REST servers',
    each: 1000,
    properties: 1,
  },
  REFLECTOR_HISTORIES: {
    file: 'src/kube/informer-histories.test.ts',
    what: 'of watches',
    each: 20_000,
    properties: 1,
  },
}
const STORMS = ['test/hostile/watch-storm.test.ts', 'test/hostile/rest-server-storm.test.ts']
const STORM_SECONDS = 300
/** For the test that stores invalid objects. */
const ODD_OBJECTS = 1800

const { values } = parseArgs({
  options: {
    only: { type: 'string' },
    seed: { type: 'string' },
    minutes: { type: 'string', default: '60' },
    report: { type: 'string' },
    figures: { type: 'string' },
    objects: { type: 'string', default: String(ODD_OBJECTS) },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)

const PARTS: Record<string, () => Promise<boolean>> = {
  hostile: async () => await tests('hostile', isOfThisFolder),
  tests: async () => await tests('tests', (path) => !isOfThisFolder(path)),
  new: runNew,
  histories: playHistories,
  neighbours: async () => await measured('neighbours', measureManyEndpoints(MANY_ENDPOINTS)),
  tenth: async () => await measured('tenth', tenth()),
  large: async () => await measured('large-organization', measureLargeOrganization(LARGE), { part: 'large' }),
  certificates: async () => await measured('certificates', badCertificates()),
  kills: async () => await measured('kills', killsOf(seed), { seed }),
  storms,
  soak: async () => await measured('soak', soak(Number(values.minutes))),
}

const { report } = values
const all = Object.keys(PARTS).filter((part) => part !== 'new')
const wanted = values.only?.split(',') ?? (report === undefined ? all : COUNTED)
const unknown = wanted.filter((part) => !(part in PARTS))
if (unknown.length > 0)
  throw new Error(`there is no part ${unknown.join()}; there are ${Object.keys(PARTS).join(', ')}`)
for (const part of wanted) {
  if (!(await PARTS[part]?.())) process.exitCode = 1
}

/** @returns whether no test failed */
function tellFailed(failed: readonly string[]): boolean {
  for (const name of failed) process.stdout.write(`failed: ${name}\n`)
  return failed.length === 0
}

/** Removes the results of earlier runs if everything is run again. */
async function runNew(): Promise<boolean> {
  const known = casesRun(readOf)
  const unknown = new Set(
    references()
      .filter((reference) => known[reference] === undefined)
      .map(fileOf),
  )
  if (unknown.size > 0) return await tests('new', (path) => unknown.has(path))
  process.stdout.write('each test that test/reports/guarantees.md names has been run\n')
  return true
}

/** Cases of tests that were new earlier, and have not been part of a complete run since. */
function casesBefore(part: string): FoundTests['tests'] {
  const [, before] = testRuns(readOf).find(([name]) => part === 'new' && name === 'cases-new') ?? []
  return before?.tests ?? {}
}

function readOf(path: string): string | undefined {
  const url = new URL(`../../${path}`, import.meta.url)
  return existsSync(url) ? readFileSync(url, 'utf8') : undefined
}

function isOfThisFolder(path: string): boolean {
  return path.startsWith('test/hostile/')
}

/** A report contains only the cases. */
async function counted(part: string, isWanted: (path: string) => boolean, file: string): Promise<boolean> {
  const { cases, failed } = await runTests(isWanted, { report: file })
  if (values.figures !== undefined) await keepAll(values.figures, { command: 'npm test' })
  await keep(`cases-${part}`, { command: 'npm test', tests: cases })
  if (part === 'tests') await forget('cases-new')
  return tellFailed(failed)
}

/** Keeps the figures of the tests, each under its own name, and the number of passed cases. */
async function tests(part: string, isWanted: (path: string) => boolean): Promise<boolean> {
  if (report !== undefined) return await counted(part, isWanted, report)
  const { cases, failed } = await runAndKeep(part, isWanted)
  await keep(`cases-${part}`, { command: commandOf(part), seed, tests: { ...casesBefore(part), ...cases } })
  if (part === 'tests') await forget('cases-new')
  return tellFailed(failed)
}

/** The same tests as in `npm test`, for longer: they are counted there. */
async function storms(): Promise<boolean> {
  const { failed } = await runAndKeep('storms', (path) => STORMS.includes(path), {
    STORM_SECONDS: String(STORM_SECONDS),
  })
  const broken = STORMS.map(figuresNameOf).flatMap((name) => {
    const kept = figuresOf(name, readOf)?.figures ?? {}
    return brokenLimits(name, (key) => kept[key])
  })
  return tellFailed([...failed, ...broken])
}

/** The name of the figures of a test file. */
function figuresNameOf(path: string): string {
  return basename(path, '.test.ts')
}

/** Runs tests, and keeps their figures. */
async function runAndKeep(
  part: string,
  isWanted: (path: string) => boolean,
  more: Record<string, string> = {},
) {
  const folder = await mkdtemp(join(tmpdir(), 'davit-figures-'))
  const HOSTILE = { HOSTILE_SEED: String(seed), HOSTILE_OBJECTS: values.objects }
  try {
    const run = await runTests(isWanted, { environment: { FIGURES_FOLDER: folder, ...HOSTILE, ...more } })
    await keepAll(folder, { command: commandOf(part), seed })
    return run
  } finally {
    await rm(folder, { recursive: true })
  }
}

/** Fails at the first history that breaks a promise, and prints it. */
async function playHistories(): Promise<boolean> {
  const histories = Object.entries(HISTORIES)
  const files = new Set(histories.map(([, { file }]) => file))
  const { failed } = await runTests((path) => files.has(path), {
    environment: {
      PROPERTIES_SEED: String(seed),
      HAND_OVER_SEED: String(seed),
      KEPT_SEED: String(seed),
      ...Object.fromEntries(histories.map(([name, { each }]) => [name, String(each)])),
    },
  })
  const played = histories.map(([, { what, each, properties }]) => [what, each * properties] as const)
  const figures = { ...Object.fromEntries(played), 'tests that failed': failed.length }
  await keep('histories', { command: commandOf('histories'), seed, figures })
  return tellFailed(failed)
}

/** Figures of the tests, each under its own name. */
async function keepAll(folder: string, from: { command: string; seed?: number }): Promise<void> {
  for (const file of await readdir(folder)) {
    const figures = JSON.parse(await readFile(join(folder, file), 'utf8')) as Figures
    await keep(file.replace(/\.json$/, ''), { ...from, figures })
  }
}

async function measured(
  name: string,
  measurement: Promise<Figures>,
  { part = name, ...more }: { part?: string; seed?: number } = {},
): Promise<boolean> {
  const figures = await measurement
  await keep(name, { command: commandOf(part), ...more, figures })
  for (const [what, value] of Object.entries(figures)) process.stdout.write(`${what.padEnd(70)} ${value}\n`)
  return tellFailed(brokenLimits(name, (key) => figures[key]))
}

async function tenth(): Promise<Figures> {
  const { perSecond, ...found } = await measureIsolation(TENTH)
  return { 'events a second': perSecond, ...besideFigures(found), ...besideMadeFigures(found) }
}

function commandOf(part: string): string {
  return `npm run test:hostile -- --only ${part}`
}
