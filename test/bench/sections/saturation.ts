/** How many deliveries a second, against the raw loop of the same writes just before and after. */
import type { DeliveryLogMode } from '../../../src/apis/webhook-endpoint.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import type { Bed } from '../bed.ts'
import type { LoadResult } from '../davit-load.ts'
import { type Spread, spreadOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { type RawRate, runRawObjects, runRawSegments } from '../raw-load.ts'
import { BODY_BYTES, type EndpointOfEach, PUBLISHERS, runClosed, startWarm, WAYS } from './both-ways.ts'

export type Saturation = {
  /** Deliveries a second. */
  perSecond: Spread
  raw: Spread
  /** Of each round: Davit's rate by the mean of the raw rates before and after. */
  ofRaw: Spread
  writesPerDelivery: Spread
  /** CPU milliseconds for each delivery, by process. */
  cpuPerDelivery: Record<string, Spread>
  rawCpuPerDelivery: Record<string, Spread>
}

export type SaturationOptions = {
  bed: Bed
  endpoints: EndpointOfEach
  sample: RawObject
  rounds: number
  seconds: number
}

/** No controller may run: it is started for Davit's turns only, so that it costs the raw loops nothing. */
export async function measureSaturation(
  options: SaturationOptions,
): Promise<Record<DeliveryLogMode, Saturation>> {
  const davit: Record<DeliveryLogMode, LoadResult[]> = { Objects: [], Segments: [] }
  const raw: Record<DeliveryLogMode, RawRate[]> = { Objects: [], Segments: [] }
  await rawTurn(options, raw)
  for (let round = 0; round < options.rounds; round += 1) {
    await davitTurn(options, davit)
    await rawTurn(options, raw)
  }
  return {
    Objects: summarize(davit.Objects, raw.Objects),
    Segments: summarize(davit.Segments, raw.Segments),
  }
}

async function rawTurn(options: SaturationOptions, into: Record<DeliveryLogMode, RawRate[]>): Promise<void> {
  const { bed, seconds, sample } = options
  const load = { publishers: PUBLISHERS, seconds, bytes: BODY_BYTES }
  into.Objects.push(await runRawObjects(bed, load, sample))
  into.Segments.push(await runRawSegments(bed, load))
  for (const way of WAYS) report(`raw loop of ${way}: ${Math.round(into[way].at(-1)?.perSecond ?? 0)}/s`)
}

async function davitTurn(
  options: SaturationOptions,
  into: Record<DeliveryLogMode, LoadResult[]>,
): Promise<void> {
  const { bed, endpoints, seconds } = options
  const controller = await startWarm(bed, endpoints)
  for (const way of WAYS) {
    const result = await runClosed(bed, controller, { routes: endpoints[way], seconds })
    into[way].push(result)
    report(`Davit with ${way}: ${Math.round(result.perSecond)}/s`)
  }
  await controller.stop()
}

function summarize(davit: readonly LoadResult[], raw: readonly RawRate[]): Saturation {
  const around = (round: number) => ((raw[round]?.perSecond ?? 0) + (raw[round + 1]?.perSecond ?? 0)) / 2
  return {
    perSecond: spreadOf(davit.map(({ perSecond }) => perSecond)),
    raw: spreadOf(raw.map(({ perSecond }) => perSecond)),
    ofRaw: spreadOf(davit.map(({ perSecond }, round) => perSecond / around(round))),
    writesPerDelivery: spreadOf(davit.map(({ writesPerDelivery }) => writesPerDelivery)),
    cpuPerDelivery: spreads(davit.map(({ cpuPerDelivery }) => cpuPerDelivery)),
    rawCpuPerDelivery: spreads(
      raw.map(({ cost, deliveries }) =>
        Object.fromEntries(Object.entries(cost.cpu).map(([name, ms]) => [name, ms / deliveries])),
      ),
    ),
  }
}

function spreads(values: readonly Record<string, number>[]): Record<string, Spread> {
  const names = Object.keys(values[0] ?? {})
  return Object.fromEntries(names.map((name) => [name, spreadOf(values.map((value) => value[name] ?? 0))]))
}
