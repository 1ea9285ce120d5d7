/** Plays a scenario whose process ends at one of its calls, and returns the promises that are broken at the end. */
import { isApiError } from '../../../src/kube/client.ts'
import type { Death } from './lifeline.ts'
import { Lifeline } from './lifeline.ts'
import { Promises } from './promises.ts'
import { ACCOUNT, createByRest, MEANWHILE, ORGANIZATION, type Scenario } from './scenarios.ts'
import { REGION, SecretsWorld } from './secrets-world.ts'

const STEP_MS = 8000
/** Deleted settings check their account a last time, when no save can be in progress. */
const GONE_MS = 25_000
/** Garbage is searched for twice, and is old enough by then. */
const REST_MS = 35 * 60_000
const QUIET_MS = 10 * 60_000
/**
 * Each credential that names a Secret is reconciled once a minute, with three reads; everything is reconciled every quarter of an
 * hour.
 */
const MOST_READS = 100

export type Played = { broken: string[]; calls: readonly string[]; longestHeldMs: number }

export async function play(scenario: Scenario, death?: Death, meanwhile?: string): Promise<Played> {
  const { world, promises } = await prepare(scenario)
  const { life } = world.process
  world.dies(death, () =>
    unlessTerminating(async () => {
      if (meanwhile) await MEANWHILE[meanwhile]?.(world)
    }),
  )
  for (const step of scenario.steps) {
    await unlessTerminating(() => step(world))
    await world.elapse(GONE_MS)
  }
  const calls = [...life.calls]
  const broken = await judge(world, promises)
  if (!meanwhile && scenario.ready) broken.push(...unready(world, scenario.ready))
  return { broken, calls, longestHeldMs: promises.longestHeldMs }
}

/** Plays a request to a REST server, which is not restarted for it; the controller lives. */
export async function playRest(death?: Death, meanwhile?: string): Promise<Played> {
  const { world, promises } = await prepare({ before: [(one) => one.connect(ORGANIZATION, ACCOUNT)] })
  const life = new Lifeline()
  life.count(death)
  createByRest(world, life).catch(() => undefined)
  await world.elapse(STEP_MS)
  if (meanwhile) await MEANWHILE[meanwhile]?.(world)
  await world.elapse(STEP_MS)
  const broken = await judge(world, promises)
  life.bury()
  return { broken, calls: life.calls, longestHeldMs: promises.longestHeldMs }
}

async function prepare({ before }: Pick<Scenario, 'before'>) {
  const world = await SecretsWorld.start({ organizations: ['neighbour', ORGANIZATION] })
  const promises = new Promises(world)
  promises.plant(ACCOUNT, REGION)
  await world.connect('neighbour', ACCOUNT)
  await world.handOver('neighbour', 'handover', 'of the neighbour')
  await world.credential('neighbour', 'ghcr', { secretRef: { name: 'handover' } })
  await world.elapse(STEP_MS)
  for (const step of before) {
    await step(world)
    await world.elapse(STEP_MS)
  }
  return { world, promises }
}

/** Ignores the failure to create an object in a namespace that is being deleted. */
async function unlessTerminating(act: () => Promise<unknown>): Promise<void> {
  try {
    await act()
  } catch (error) {
    if (!isApiError(error, 'Terminating')) throw error
  }
}

async function judge(world: SecretsWorld, promises: Promises): Promise<string[]> {
  await world.elapse(REST_MS)
  const { api } = world.process
  const { writes, reads } = api
  await world.elapse(QUIET_MS)
  const broken = promises.broken()
  if (api.writes > writes) broken.push(`${api.writes - writes} writes of an idle controller`)
  if (api.reads - reads > MOST_READS) broken.push(`${api.reads - reads} reads of an idle controller`)
  const kept = world.cloud.stores.get(`${ACCOUNT} ${REGION}`)?.get('/davit/neighbour/rc_ghcr')?.versions
  if (kept?.[0]?.value !== 'of the neighbour' || kept.length !== 1)
    broken.push('the neighbour lost its secret')
  await world.stop()
  return broken
}

function unready(world: SecretsWorld, value: string): string[] {
  const { status } = world.credentialOf(ORGANIZATION, 'ghcr') ?? {}
  const ready = status?.conditions?.find(({ type }) => type === 'Ready')
  if (ready?.status !== 'True') return [`it is not Ready: ${ready?.reason}`]
  const { account = '', region = '', name = '', version = 0 } = status?.parameter ?? {}
  const held = world.cloud.stores.get(`${account} ${region}`)?.get(name)?.versions[version - 1]
  return held?.value === value ? [] : [`it has ${held?.value}`]
}
