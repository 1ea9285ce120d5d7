/** The effect of one hanging endpoint on 999 others, as a ratio to the same load without it. */
import { type Bed, onBed } from '../../bench/bed.ts'
import { inTurn } from '../../bench/measure/in-turn.ts'
import { report } from '../../bench/progress.ts'
import { receiptsOf, SHORT_DRAIN, whileItHangs } from '../../bench/sections/isolation.ts'
import { makeEndpoints } from '../../bench/topology.ts'
import type { Figures } from '../figures.ts'
import { besideFigures } from './beside-figures.ts'

const ORGANIZATIONS = 37
const EACH = 27
/** Every tenth event hangs, so that its queue is never empty. */
const BETWEEN = 9

export type ManyEndpointsPlan = {
  organizations: number
  each: number
  rounds: number
  seconds: number
  perSecond: number
}

export const MANY_ENDPOINTS: ManyEndpointsPlan = {
  organizations: ORGANIZATIONS,
  each: EACH,
  rounds: 14,
  seconds: 15,
  perSecond: 100,
}

export async function measureManyEndpoints({ rounds, ...plan }: ManyEndpointsPlan): Promise<Figures> {
  return await onBed(async (bed) => {
    const controller = await bed.startController({ env: SHORT_DRAIN })
    const good = await make(bed, 'good', { organizations: plan.organizations, endpoints: plan.each })
    const [other] = await make(bed, 'other', { organizations: 1, endpoints: 1 })
    const [hanging] = await make(bed, 'hanging', { organizations: 1, endpoints: 1 }, '/hang')
    if (!other || !hanging) throw new Error('there is no route')
    report(`${good.length} endpoints`)
    const mixed = (last: typeof other) =>
      good.flatMap((route, i) => (i % BETWEEN === 0 ? [route, last] : [route]))
    // Warms up the code.
    await receiptsOf(bed, mixed(other), plan)
    const found = await inTurn(rounds, {
      without: async () => await receiptsOf(bed, mixed(other), plan),
      beside: async () =>
        await whileItHangs(bed, hanging, async () => await receiptsOf(bed, mixed(hanging), plan)),
    })
    await controller.stop()
    return { 'good endpoints': good.length, ...besideFigures(found) }
  })
}

async function make(
  bed: Bed,
  name: string,
  many: { organizations: number; endpoints: number },
  path = `/ok/${name}`,
) {
  return await makeEndpoints(bed, { ...many, name, path })
}
