/**
 * Secrets of many organizations that share one account, all handed over at once, at the rate that AWS takes: when each of them is
 * stored, how often something is tried again, and what all of it costs the API server and the controller.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { registryCredentials } from '../../../src/apis/registry-credential.ts'
import { createClock } from '../../../src/lib/time.ts'
import { DEFAULT_RATES } from '../../../test-support/aws/rates.ts'
import { connectOrganization } from '../../support/aws/connect-organization.ts'
import { REGION, TestAws } from '../../support/aws/organization-account.ts'
import { type Bed, makeNamespace, onBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { type Handover, handOver } from '../loads/handovers.ts'
import { readRequestCounts, requestsBetween, sumOf, writesOf } from '../measure/api-requests.ts'
import { fairnessOf, type Store } from '../measure/fairness.ts'
import { residentBytes } from '../measure/process-usage.ts'
import { report } from '../progress.ts'

export type CredentialsPlan = { organizations: number; each: number; perSecond: number; idleSeconds: number }

export type CredentialsLoad = CredentialsPlan & {
  stored: number
  createSeconds: number
  storeSeconds: number
  /** Of the k-th store of an organization over the time that it has when all take turns: the worst, and the median. */
  fairShare: { worst: number; median: number }
  /** Of an organization that comes when all others wait: seconds until its account is connected. */
  latecomerSeconds: number
  /** Attempts after which each put was retried; and rejections by the account. */
  retriesPerPut: number
  throttled: number
  apiWritesEach: number
  /** By what is written, in a minute. */
  idleWrites: Record<string, number>
  /** Bytes: before, at most, and when all is done. */
  controller: { before: number; most: number; after: number }
}

const ACCOUNT = '222222222222'
const LATECOMER = 'latecomer'
const SAMPLE_MS = 1000
const AT_A_TIME = 16
/** The sweeps that follow a connection are over by then. */
const CONNECT_LIMIT_MS = 300_000
const SETTLE_MS = 5000
const MINUTE = 60

export async function measureCredentials(plan: CredentialsPlan): Promise<CredentialsLoad> {
  const puts = { perSecond: plan.perSecond, burst: plan.perSecond }
  const aws = await TestAws.start({ clock: createClock(), rates: { ...DEFAULT_RATES, puts, deletes: puts } })
  try {
    return await onBed((bed) => measureOn(bed, aws, plan))
  } finally {
    await aws.stop()
  }
}

async function measureOn(bed: Bed, aws: TestAws, plan: CredentialsPlan): Promise<CredentialsLoad> {
  const env = { ...aws.environment(), DAVIT_CLOUD_WRITES_PER_SECOND: String(plan.perSecond) }
  const controller = await bed.startController({ env })
  const names = Array.from({ length: plan.organizations }, (_, i) => `org-${i}`)
  const connect = connector(bed, aws)
  for (const name of [...names, LATECOMER]) await makeNamespace(bed.api, name, { organization: true })
  await inParallel(names, AT_A_TIME, connect)
  await untilListed(aws, plan.organizations)
  const before = residentBytes(controller.pid)
  report(`${names.length} organizations are connected`)
  const memory = sampleMemory(controller.pid)
  const counts = await readRequestCounts(bed.controlPlane.access)
  const begin = Date.now()
  const handovers = names.flatMap((namespace) =>
    Array.from({ length: plan.each }, (_, i): Handover => ({ namespace, name: `token-${i}` })),
  )
  const askedAt = await handOver(bed.api, handovers)
  const createSeconds = (Date.now() - begin) / 1000
  report(`${handovers.length} secrets were handed over in ${createSeconds.toFixed(1)} s`)
  const late = performance.now()
  const latecomer = connect(LATECOMER).then(() => (performance.now() - late) / 1000)
  const stores = await untilStored(aws, handovers.length, askedAt)
  const storeSeconds = (Date.now() - begin) / 1000
  const latecomerSeconds = await latecomer
  await untilReady(bed, names, plan.each)
  const writes = writesOf(requestsBetween(counts, await readRequestCounts(bed.controlPlane.access)))
  const most = await memory.stop()
  const [retriesPerPut, throttled] = await retriesOf(controller, aws, stores.length)
  report(`all are stored; ${plan.idleSeconds} s of rest`)
  return {
    ...plan,
    stored: stores.length,
    createSeconds,
    storeSeconds,
    fairShare: fairnessOf(stores, plan),
    latecomerSeconds,
    retriesPerPut,
    throttled,
    apiWritesEach: sumOf(writes) / handovers.length,
    idleWrites: await idleWrites(bed, plan.idleSeconds),
    controller: { before, most, after: residentBytes(controller.pid) },
  }
}

function connector(bed: Bed, aws: TestAws) {
  const account = aws.emulator.accounts.add(ACCOUNT)
  return (organization: string) =>
    connectOrganization({
      api: bed.api,
      organization,
      region: REGION,
      account,
      role: `davit-${organization}`,
      limitMs: CONNECT_LIMIT_MS,
    })
}

async function inParallel<T>(items: readonly T[], workers: number, act: (item: T) => Promise<unknown>) {
  const waiting = [...items]
  const work = async () => {
    for (let item = waiting.shift(); item !== undefined; item = waiting.shift()) await act(item)
  }
  await Promise.all(Array.from({ length: workers }, work))
}

/** The first listing of each account comes after its connection, and wakes its credentials. */
async function untilListed(aws: TestAws, wanted: number): Promise<void> {
  const limit = performance.now() + CONNECT_LIMIT_MS
  const listed = () =>
    new Set(
      aws.emulator.trail
        .entries({ operation: 'DescribeParameters' })
        .flatMap(({ error, session }) => (error ? [] : [session?.name])),
    ).size
  while (listed() < wanted) {
    if (performance.now() > limit) throw new Error(`only ${listed()} accounts of ${wanted} were listed`)
    await sleep(SAMPLE_MS)
  }
  await sleep(SETTLE_MS)
}

/** Every first version that the account took, in order. */
async function untilStored(
  aws: TestAws,
  wanted: number,
  askedAt: ReadonlyMap<string, number>,
): Promise<Store[]> {
  const limit = performance.now() + wanted * 2000 + CONNECT_LIMIT_MS
  for (;;) {
    const stores = storesOf(aws, askedAt)
    if (stores.length >= wanted) return stores
    if (performance.now() > limit) throw new Error(`only ${stores.length} of ${wanted} are stored`)
    await sleep(SAMPLE_MS)
  }
}

function storesOf(aws: TestAws, askedAt: ReadonlyMap<string, number>): Store[] {
  return aws.emulator.trail.entries({ operation: 'PutParameter' }).flatMap(({ at, error, parameters }) => {
    const [, organization = '', name = ''] = /^\/davit\/([^/]+)\/(rc_.+)$/.exec(String(parameters.Name)) ?? []
    return error || name === '' ? [] : [{ organization, afterMs: at - (askedAt.get(organization) ?? 0) }]
  })
}

/** Until the API server says of each credential that it is ready. */
async function untilReady(bed: Bed, names: readonly string[], each: number): Promise<void> {
  const limit = performance.now() + CONNECT_LIMIT_MS
  for (const namespace of names) {
    for (;;) {
      const { items } = await bed.api.list(registryCredentials, { namespace, limit: 1000 })
      const ready = items.filter(({ status }) => isReady(status)).length
      if (ready === each) break
      if (performance.now() > limit) throw new Error(`${ready} of ${each} are ready in ${namespace}`)
      await sleep(SAMPLE_MS)
    }
  }
}

function isReady(status: unknown): boolean {
  const { conditions = [] } = (status ?? {}) as { conditions?: { type: string; status: string }[] }
  return conditions.some(({ type, status: is }) => type === 'Ready' && is === 'True')
}

async function retriesOf(controller: Controller, aws: TestAws, puts: number): Promise<[number, number]> {
  const retries = await controller.sum('davit_cloud_retries_total', 'operation="ssm:PutParameter"')
  const refused = aws.emulator.trail.entries({ operation: 'PutParameter' })
  return [retries / puts, refused.filter(({ error }) => error !== undefined).length]
}

async function idleWrites(bed: Bed, seconds: number): Promise<Record<string, number>> {
  await sleep(SETTLE_MS)
  const before = await readRequestCounts(bed.controlPlane.access)
  await sleep(seconds * 1000)
  const after = await readRequestCounts(bed.controlPlane.access)
  const writes = writesOf(requestsBetween(before, after))
  return Object.fromEntries([...writes].map(([what, count]) => [what, (count * MINUTE) / seconds]))
}

function sampleMemory(pid: number): { stop(): Promise<number> } {
  const stopping = new AbortController()
  let most = 0
  const sampling = (async () => {
    while (!stopping.signal.aborted) {
      most = Math.max(most, residentBytes(pid))
      await sleep(SAMPLE_MS, undefined, { signal: stopping.signal }).catch(() => undefined)
    }
  })()
  return {
    async stop() {
      stopping.abort()
      await sampling
      return most
    },
  }
}
