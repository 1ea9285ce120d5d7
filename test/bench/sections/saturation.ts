/** How many deliveries a second, against the raw loop of the same writes just before and after. */
import type { Bed } from '../bed.ts'
import type { LoadResult } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import { type Spread, spreadOf, spreadsOf } from '../measure/samples.ts'
import { report } from '../progress.ts'
import { type RawRate, runRaw } from '../raw-load.ts'
import { BODY_BYTES, PUBLISHERS, runClosed, startWarm } from './usual-load.ts'

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
  routes: readonly Route[]
  rounds: number
  seconds: number
}

/** No controller may run: it is started for Davit's turns only, so that it costs the raw loop nothing. */
export async function measureSaturation(options: SaturationOptions): Promise<Saturation> {
  await warmUp(options)
  const davit: LoadResult[] = []
  const raw = [await rawTurn(options)]
  for (let round = 0; round < options.rounds; round += 1) {
    davit.push(await davitTurn(options))
    raw.push(await rawTurn(options))
  }
  return summarize(davit, raw)
}

/** Receiver and store have had load before the first raw turn, as they have before the others. */
async function warmUp({ bed, routes }: SaturationOptions): Promise<void> {
  const controller = await startWarm(bed, routes)
  await controller.stop()
}

async function rawTurn({ bed, seconds }: SaturationOptions): Promise<RawRate> {
  const rate = await runRaw(bed, { publishers: PUBLISHERS, seconds, bytes: BODY_BYTES })
  report(`raw loop: ${Math.round(rate.perSecond)}/s`)
  return rate
}

async function davitTurn({ bed, routes, seconds }: SaturationOptions): Promise<LoadResult> {
  const controller = await startWarm(bed, routes)
  const result = await runClosed(bed, controller, { routes, seconds })
  report(`Davit: ${Math.round(result.perSecond)}/s`)
  await controller.stop()
  return result
}

function summarize(davit: readonly LoadResult[], raw: readonly RawRate[]): Saturation {
  const around = (round: number) => ((raw[round]?.perSecond ?? 0) + (raw[round + 1]?.perSecond ?? 0)) / 2
  return {
    perSecond: spreadOf(davit.map(({ perSecond }) => perSecond)),
    raw: spreadOf(raw.map(({ perSecond }) => perSecond)),
    ofRaw: spreadOf(davit.map(({ perSecond }, round) => perSecond / around(round))),
    writesPerDelivery: spreadOf(davit.map(({ writesPerDelivery }) => writesPerDelivery)),
    cpuPerDelivery: spreadsOf(davit.map(({ cpuPerDelivery }) => cpuPerDelivery)),
    rawCpuPerDelivery: spreadsOf(
      raw.map(({ cost, deliveries }) =>
        Object.fromEntries(Object.entries(cost.cpu).map(([name, ms]) => [name, ms / deliveries])),
      ),
    ),
  }
}
