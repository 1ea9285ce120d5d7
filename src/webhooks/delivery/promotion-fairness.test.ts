import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import type { ApiCall } from '../../../test/support/faulty-api.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { ApiError } from '../../kube/client.ts'

const SECOND = 1000
const MINUTE = 60 * SECOND
const WEBHOOK_DOWN = new ApiError('Unavailable', 'failed calling webhook')

/** Creates of delivery objects in these organizations. */
function creatingIn(...organizations: string[]) {
  return ({ verb, plural, body }: ApiCall) => {
    const { namespace = '' } = (body as { metadata?: { namespace?: string } } | undefined)?.metadata ?? {}
    return verb === 'create' && plural === webhookDeliveries.plural && organizations.includes(namespace)
  }
}

function objectsIn(bed: EngineBed, organization: string): number {
  return bed.objects.filter(({ metadata }) => metadata.namespace === organization).length
}

/** A bed with a disabled endpoint in each organization, which holds so many deliveries. */
async function holding(counts: Record<string, number>) {
  const bed = new EngineBed()
  bed.start()
  const hold = async (organization: string, count: number) => {
    const held = await bed.endpoint(`of-${organization}`, { state: 'disabled' }, organization)
    await bed.accept(...Array.from({ length: count }, () => bed.event([held])))
  }
  for (const [organization, count] of Object.entries(counts)) await hold(organization, count)
  return { bed, hold }
}

describe('deliveries get their objects', () => {
  it('while objects of other organizations cannot be created', async () => {
    const { bed, hold } = await holding({ one: 200, two: 200 })
    const mend = bed.api.fail(creatingIn('one', 'two'), { before: WEBHOOK_DOWN }, 1_000_000)
    await bed.elapse(MINUTE)
    await hold('other', 20)
    await bed.elapse(5 * SECOND)
    expect(objectsIn(bed, 'other')).toBe(20)
    mend()
    await bed.elapse(3 * MINUTE)
    expect([objectsIn(bed, 'one'), objectsIn(bed, 'two'), bed.segments.size]).toEqual([200, 200, 0])
  })

  it('while calls for those of another organization hang', async () => {
    const { bed, hold } = await holding({ one: 200 })
    const gate = Promise.withResolvers<void>()
    bed.api.fail(creatingIn('one'), { hold: gate.promise }, 1_000_000)
    await bed.elapse(5 * SECOND)
    await hold('other', 20)
    await bed.elapse(5 * SECOND)
    expect(objectsIn(bed, 'other')).toBe(20)
    gate.resolve()
    await bed.elapse(MINUTE)
    expect([objectsIn(bed, 'one'), bed.segments.size]).toEqual([200, 0])
  })

  it('while calls for those that fail in another organization hang', async () => {
    const { bed, hold } = await holding({})
    const gate = Promise.withResolvers<void>()
    bed.api.fail(creatingIn('one'), { hold: gate.promise }, 1_000_000)
    for (let number = 0; number < 10; number += 1) {
      const failing = await bed.endpoint(`failing-${number}`, {}, 'one')
      bed.sender.answers.set(`/failing-${number}`, 500)
      await bed.accept(...Array.from({ length: 20 }, () => bed.event([failing])))
    }
    await bed.elapse(SECOND)
    await hold('other', 20)
    await bed.elapse(5 * SECOND)
    expect(objectsIn(bed, 'other')).toBe(20)
    gate.resolve()
    await bed.elapse(SECOND)
    expect(objectsIn(bed, 'one')).toBe(200)
  })
})

it('an entry whose object cannot be created is attempted nevertheless', async () => {
  const { bed } = await holding({})
  const one = await bed.endpoint('one', { concurrency: 1 })
  bed.api.fail(creatingIn('acme'), { before: WEBHOOK_DOWN }, 1_000_000)
  await bed.accept(bed.event([one]), bed.event([one]))
  await bed.elapse(10 * SECOND)
  expect(bed.begun('one')).toHaveLength(1)
  bed.sender.answers.set('/one', 200)
  bed.underWay[0]?.end(200)
  await bed.elapse(SECOND)
  expect(bed.begun('one')).toHaveLength(2)
})
