/**
 * The long form of what `npm test` does briefly; prints a table and fails if a promise was broken.
 * `npm run test:chaos [-- --seed=N --kills=N]` kills the controller, `npm run test:chaos -- --rest [--seed=N --clients=N
 * --rounds=N --rate=N]` kills REST servers under their clients, `npm run test:chaos -- --credentials [--seed=N --kills=N]` kills
 * the controller while owners use secrets, `npm run test:chaos -- --series [--kills=N --rate=N]` kills it several times within a
 * minute, `npm run test:chaos -- --bakes [--seed=N --kills=N]` kills bakes, and `npm run
 * test:chaos -- --fleet [--seed=N --minutes=N, or --faults=N of each kind --controllers=N --servers=N]` does everything else to
 * several controllers and REST servers (with `--log=MiB` as the limit of the log, and with `--only=KIND,...` each for `--lasts`
 * seconds; with `--behind=MS` there is a second API server with data from etcd that is this much late; with `--other=COMMIT`
 * everything changes to that version and back), and adds its figures to those in test/chaos/results; with `--sum` it prints their
 * totals.
 */
import { parseArgs } from 'node:util'
import { playBakeChaos } from './bakes/bake-chaos.ts'
import { bakeReportOf } from './bakes/bake-report.ts'
import { playCredentialChaos } from './credentials/credential-chaos.ts'
import { credentialReportOf } from './credentials/credential-report.ts'
import { FAULT_KINDS, type FaultKind } from './fleet/faults.ts'
import { fleetFiguresOf } from './fleet/fleet-figures.ts'
import { fleetReportOf } from './fleet/fleet-report.ts'
import { type FleetRunOptions, playFleet } from './fleet/fleet-run.ts'
import { commitHere, keepRun, keptRuns } from './fleet/kept-runs.ts'
import { programOf } from './fleet/other-version.ts'
import { playKills } from './kill-run.ts'
import { playKillSeries, seriesReportOf } from './kill-series.ts'
import { reportOf } from './report.ts'
import { playServerChaos } from './rest-server/server-chaos.ts'
import { serverReportOf } from './rest-server/server-report.ts'
import { planTroubles } from './rest-server/troubles.ts'
import { SeededRandom } from './seeded-random.ts'

const { values } = parseArgs({
  allowNegative: true,
  options: {
    rest: { type: 'boolean', default: false },
    credentials: { type: 'boolean', default: false },
    bakes: { type: 'boolean', default: false },
    series: { type: 'boolean', default: false },
    seed: { type: 'string' },
    kills: { type: 'string' },
    clients: { type: 'string', default: '200' },
    rounds: { type: 'string', default: '3' },
    rate: { type: 'string' },
    fleet: { type: 'boolean', default: false },
    minutes: { type: 'string' },
    faults: { type: 'string' },
    controllers: { type: 'string', default: '3' },
    servers: { type: 'string', default: '2' },
    lease: { type: 'string', default: '9' },
    retention: { type: 'string', default: '120' },
    log: { type: 'string' },
    behind: { type: 'string' },
    between: { type: 'string', default: '12' },
    only: { type: 'string' },
    lasts: { type: 'string' },
    other: { type: 'string' },
    agree: { type: 'boolean', default: true },
    sum: { type: 'boolean', default: false },
  },
})
const seed = Number(values.seed ?? Date.now() % 1_000_000)
const started = performance.now()
const outcome = await play()
process.stdout.write(values.sum ? `${outcome.report}\n` : `\nseed ${seed}\n${outcome.report}\n`)
// Unfinished requests to ended processes would keep Node alive forever.
process.exit(outcome.good ? 0 : 1)

async function play() {
  if (values.fleet) return values.sum ? await sumFleets() : await breakFleet()
  if (values.rest) return await killServers()
  if (values.bakes) return await killBakes()
  if (values.series) return await killInSeries()
  return values.credentials ? await killUnderOwners() : await killController()
}

async function killUnderOwners() {
  const kills = Number(values.kills ?? 50)
  const findings = await playCredentialChaos({ seed, kills, organizations: 5, say })
  return { report: credentialReportOf(findings), good: findings.wrong.length === 0 }
}

async function killController() {
  const findings = await playKills({ seed, kills: Number(values.kills ?? 100), say })
  return { report: reportOf(findings), good: findings.wrong.length === 0 }
}

async function killServers() {
  const findings = await playServerChaos({
    seed,
    clients: Number(values.clients),
    servers: 2,
    perSecond: Number(values.rate ?? 1),
    troubles: (random) => planTroubles(random, Number(values.rounds), [8000, 12_000]),
    calmMs: 8000,
    say,
  })
  return { report: serverReportOf(findings), good: findings.wrong.length === 0 }
}

async function killInSeries() {
  const found = await playKillSeries({
    seed,
    kills: Number(values.kills ?? 9),
    perSecond: Number(values.rate ?? 330),
    say,
  })
  return {
    report: seriesReportOf(found),
    good: found.lost.length + found.unexplained + found.late.length === 0,
  }
}

async function killBakes() {
  const kills = Number(values.kills ?? 200)
  const findings = await playBakeChaos({ kills, random: new SeededRandom(seed), say })
  return { report: bakeReportOf(findings), good: findings.wrong.length === 0 && findings.killed > 0 }
}

async function breakFleet() {
  const faultsOfEach = values.faults === undefined ? undefined : Number(values.faults)
  const minutes = Number(values.minutes ?? (faultsOfEach === undefined ? 10 : Number.POSITIVE_INFINITY))
  const options: FleetRunOptions = {
    seed,
    lastsMs: minutes * 60_000,
    controllers: Number(values.controllers),
    servers: Number(values.servers),
    organizations: 3,
    perSecond: Number(values.rate ?? 10),
    maxBehind: 4000,
    leaseMs: Number(values.lease) * 1000,
    retentionMs: Number(values.retention) * 1000,
    waitsForRetention: true,
    serversAgree: values.agree,
    between: Number(values.between),
    pace: 1,
    say,
    ...(values.log === undefined ? {} : { logBytes: Number(values.log) * 1024 ** 2 }),
    ...(values.behind === undefined ? {} : { behindMs: millisecondsIn(values.behind) }),
    ...(faultsOfEach === undefined ? {} : { faultsOfEach }),
    ...(values.only === undefined ? {} : { kinds: kindsIn(values.only) }),
    ...(values.other === undefined
      ? {}
      : { other: { ref: values.other, main: await programOf(values.other) } }),
    ...(values.lasts === undefined ? {} : { forMs: Number(values.lasts) * 1000 }),
  }
  const commit = await commitHere()
  const run = await playFleet(options)
  const figures = fleetFiguresOf(run, options, commit)
  await keepRun(figures)
  return { report: fleetReportOf([figures]), good: run.wrong.length === 0 }
}

async function sumFleets() {
  const runs = await keptRuns()
  return { report: fleetReportOf(runs), good: runs.every(({ wrong }) => wrong.length === 0) }
}

function millisecondsIn(words: string): number {
  const ms = Number(words)
  if (!(ms >= 0)) throw new Error(`${words} is no number of milliseconds`)
  return ms
}

/** @param words comma-separated kinds of faults */
function kindsIn(words: string): FaultKind[] {
  return words.split(',').map((word) => {
    const kind = FAULT_KINDS.find((one) => one === word)
    if (kind === undefined)
      throw new Error(`${word} is no kind of fault; there are ${FAULT_KINDS.join(', ')}`)
    return kind
  })
}

function say(line: string): void {
  const at = ((performance.now() - started) / 1000).toFixed(1).padStart(6)
  process.stdout.write(`${at} s  ${line}\n`)
}
