/** Publishing by REST with default settings, next to the raw loop of the same writes in the same rounds. */
import { mkdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describeVersions } from '../machine.ts'
import { publishingCases, type Round } from '../measure/rest-turns.ts'
import { rotated, runRounds, startStopwatch } from '../measure/rounds.ts'
import { spreadOf, spreadsOf } from '../measure/samples.ts'
import { cpuProfile, longestSelfTimes } from '../measure/self-times.ts'
import { report } from '../progress.ts'
import { type RawRate, runRaw } from '../raw-load.ts'
import type { RestPublishing, ServerProfile } from '../rest-load-results.ts'
import { type MeasuredServer, startServerBed } from '../rest-server.ts'
import {
  type RestCase,
  type RestLoadPlan,
  runTurn,
  runTurns,
  STEADY,
  saturationCase,
  warmUp,
} from './rest-turn.ts'
import { type IdleServerBed, onIdleServerBed, type ServerBed } from './server-bed.ts'
import { BODY_BYTES, PUBLISHERS, startWarm } from './usual-load.ts'

export type PublishingPlan = RestLoadPlan & {
  /** For the CPU profiles of the REST server; absent: none are taken. */
  profiles?: string | undefined
}

/** The window holds a few batches of each client. */
const BATCHES = { publishers: 8, window: 2000, batch: 100 }
const CASES: readonly RestCase[] = [
  saturationCase(32),
  saturationCase(128),
  saturationCase(200),
  {
    name: `batches of ${BATCHES.batch} events, ${BATCHES.publishers} clients`,
    clients: BATCHES.publishers,
    pace: BATCHES,
  },
  STEADY,
]
const RAW_WARM_UP_SECONDS = 2
const WARM_UP_SECONDS = 3
const TOP_FUNCTIONS = 10

/** Neither the controller nor the REST server runs during the raw loop, so that they cost it nothing. */
export async function measureRestPublishing(plan: PublishingPlan): Promise<RestPublishing> {
  const elapsed = startStopwatch()
  return await onIdleServerBed(async (idle) => {
    const { bed } = idle
    // Receiver, store and the raw loop itself have had load before their first turn, as they have before the others.
    await runRaw(bed, { publishers: PUBLISHERS, seconds: RAW_WARM_UP_SECONDS, bytes: BODY_BYTES })
    const raw = [await rawTurn(idle, plan.seconds)]
    const turns: Round[] = []
    const rounds = await runRounds(plan, elapsed, async (round) => {
      turns.push(
        await onRunning(idle, (on, server) =>
          runTurns(on, [server], { cases: rotated(CASES, round), seconds: plan.seconds }),
        ),
      )
      raw.push(await rawTurn(idle, plan.seconds))
      report(`rest-publishing: round ${round + 1} of ${plan.rounds} is complete`)
    })
    const profiles = await takeProfiles(idle, plan)
    return {
      versions: await describeVersions(bed.controlPlane),
      rounds,
      seconds: plan.seconds,
      raw: spreadOf(raw.map(({ perSecond }) => perSecond)),
      rawCpu: spreadsOf(raw.map(cpuPerDelivery)),
      cases: publishingCases(
        turns,
        raw.map(({ perSecond }) => perSecond),
      ),
      profiles,
    }
  })
}

async function rawTurn({ bed }: IdleServerBed, seconds: number): Promise<RawRate> {
  const rate = await runRaw(bed, { publishers: PUBLISHERS, seconds, bytes: BODY_BYTES })
  report(`raw loop: ${Math.round(rate.perSecond)}/s`)
  return rate
}

function cpuPerDelivery({ cost, deliveries }: RawRate): Record<string, number> {
  return Object.fromEntries(Object.entries(cost.cpu).map(([name, ms]) => [name, ms / deliveries]))
}

/** Runs `work` with a controller and a REST server that have had load already. */
async function onRunning<T>(
  idle: IdleServerBed,
  work: (on: ServerBed, server: MeasuredServer) => Promise<T>,
): Promise<T> {
  const controller = await startWarm(idle.bed, idle.routes)
  const on = { ...idle, controller }
  const server = await startServerBed(idle.bed, { settings: 'default' })
  try {
    await warmUp(on, [server], { of: saturationCase(PUBLISHERS), seconds: WARM_UP_SECONDS })
    return await work(on, server)
  } finally {
    await server.stop()
    await controller.stop()
  }
}

/** After the rounds: a process that is profiled is slower. */
async function takeProfiles(idle: IdleServerBed, plan: PublishingPlan): Promise<ServerProfile[]> {
  const { profiles: folder, seconds } = plan
  if (folder === undefined) return []
  await mkdir(folder, { recursive: true })
  return await onRunning(idle, async (on, server) => {
    const profiles: ServerProfile[] = []
    for (const of of CASES) profiles.push(await takeProfile(on, server, { of, seconds, folder }))
    return profiles
  })
}

async function takeProfile(
  on: ServerBed,
  server: MeasuredServer,
  { of, seconds, folder }: { of: RestCase; seconds: number; folder: string },
): Promise<ServerProfile> {
  const path = join(folder, `rest-server-${of.name.replaceAll(/\W+/g, '-')}.cpuprofile`)
  await server.call('startProfile', null)
  await runTurn(on, [server], { of, seconds })
  await server.call('writeProfile', path)
  report(`profile: ${path}`)
  const profile = cpuProfile.parse(JSON.parse(await readFile(path, 'utf8')))
  return { name: of.name, ...longestSelfTimes(profile, TOP_FUNCTIONS) }
}
