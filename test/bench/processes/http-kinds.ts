/** Sends different requests to the REST server at a fixed rate, and measures each kind separately. */
import { readFile } from 'node:fs/promises'
import { HttpClient } from '../loads/http-client.ts'
import { openLoop } from '../loads/pace.ts'
import { type Draft, REQUEST_KINDS, type RequestKind, sendOne, type Tenant } from '../loads/request-kinds.ts'
import { makeTenant, type TenantPlan } from '../loads/tenants.ts'
import { microseconds } from '../measure/instant.ts'
import { type Quantiles, quantilesOf, Samples } from '../measure/samples.ts'
import { serveCalls } from './remote-calls.ts'

/** From the call to its answer, in milliseconds. */
export type KindTimes = { latency: Quantiles; failed: number }

export type HttpKindsCalls = {
  /** Makes what the requests are about. */
  prepare: (from: {
    baseUrl: string
    keyFiles: Record<string, string>
    connections: number
    plan: TenantPlan
  }) => Promise<void>
  /** @param at requests a second of each kind */
  ask: (at: { perSecond: number; seconds: number }) => Promise<Record<RequestKind, KindTimes>>
}

let ready: { client: HttpClient; tenants: Tenant[]; draft: Draft } | undefined

serveCalls({
  async prepare({ baseUrl, keyFiles, connections, plan }) {
    const client = new HttpClient(baseUrl, connections)
    const tenants = await Promise.all(
      Object.entries(keyFiles).map(async ([organization, file]) =>
        makeTenant(client, { organization, key: await readFile(file, 'utf8') }, plan),
      ),
    )
    ready = { client, tenants, draft: plan }
  },
  async ask({ perSecond, seconds }) {
    if (!ready) throw new Error('nothing is prepared')
    const { client, tenants, draft } = ready
    const times = timesOfEach()
    await openLoop({ perSecond: perSecond * REQUEST_KINDS.length, seconds }, async (n) => {
      const kind = REQUEST_KINDS[n % REQUEST_KINDS.length] ?? 'list'
      const mine = times[kind]
      const called = microseconds()
      try {
        await sendOne(client, tenants, { kind, n: Math.floor(n / REQUEST_KINDS.length), draft })
        mine.latency.add((microseconds() - called) / 1000)
      } catch (error) {
        mine.failed += 1
        if (mine.failed === 1) process.stderr.write(`${kind}: ${String(error)}\n`)
      }
    })
    return summarized(times)
  },
} satisfies HttpKindsCalls)

type Times = Record<RequestKind, { latency: Samples; failed: number }>

function timesOfEach(): Times {
  const none = () => ({ latency: new Samples(), failed: 0 })
  return Object.fromEntries(REQUEST_KINDS.map((kind) => [kind, none()])) as Times
}

function summarized(times: Times): Record<RequestKind, KindTimes> {
  const of = (kind: RequestKind) => {
    const { latency, failed } = times[kind]
    return { latency: quantilesOf(latency.values()), failed }
  }
  return Object.fromEntries(REQUEST_KINDS.map((kind) => [kind, of(kind)])) as Record<RequestKind, KindTimes>
}
