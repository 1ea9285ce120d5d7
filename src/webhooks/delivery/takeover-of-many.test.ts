import { expect, it } from 'vitest'
import { EngineBed, ORGANIZATION, SYSTEM } from '../../../test/support/engine-bed.ts'
import type { ApiCall } from '../../../test/support/faulty-api.ts'
import { encodeLogRecord, outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'

const SECOND = 1000

/** Creates of delivery objects in any organization of a backlog. */
function creatingOfBacklog({ verb, plural, body }: ApiCall): boolean {
  const { namespace = '' } = (body as { metadata?: { namespace?: string } } | undefined)?.metadata ?? {}
  return verb === 'create' && plural === webhookDeliveries.plural && namespace.startsWith('backlog')
}

/** Organizations with so many deliveries each that have failed, and have no object. */
async function owing(counts: readonly number[]): Promise<EngineBed> {
  const bed = new EngineBed()
  for (const [number, count] of counts.entries()) {
    const endpoint = await bed.endpoint('one', {}, `backlog-${number}`)
    for (let from = 0; from < count; from += 2000) {
      const events = Array.from({ length: Math.min(2000, count - from) }, () => bed.event([endpoint]))
      const { version, deliveries } = await bed.append(...events)
      const attempt = { at: new Date(bed.clock.now()).toISOString(), code: 500, latencyMs: 1 }
      const nextAttemptAt = bed.clock.now() + 5 * SECOND
      const records = deliveries.map(({ index }) =>
        encodeLogRecord({ kind: 'failed', position: { version, index }, attempt, nextAttemptAt }),
      )
      const spec = { writtenAt: 0, writer: 'before', lowWater: '0', records: records.join('\n') }
      const name = `failed-${number}-${from}`
      await bed.store.create(outcomeSegments, { metadata: { namespace: SYSTEM, name }, spec })
    }
  }
  await bed.endpoint('good')
  return bed
}

it.each([{ given: [4500] }, { given: [3000, 3000] }, { given: [1500, 1500, 1500] }, { given: [4000, 300] }])(
  'a start that owes objects to $given deliveries sends to everybody at once',
  async ({ given }) => {
    const before = await owing(given)
    const gate = Promise.withResolvers<void>()
    const bed = await before.restarted(({ api, sender }) => {
      api.fail(creatingOfBacklog, { hold: gate.promise }, 1_000_000)
      sender.answers.set('/good', 200)
    })
    const good = [...bed.directory.all()].find(({ endpoint }) => endpoint.metadata.namespace === ORGANIZATION)
    if (!good) throw new Error('there is no endpoint')
    await bed.accept(bed.event([good.endpoint]))
    await bed.elapse(SECOND)
    expect(bed.begun('good')).toHaveLength(1)
    gate.resolve()
    await bed.elapse(5 * SECOND)
    const owed = bed.objects.filter(({ metadata: { namespace = '' } }) => namespace.startsWith('backlog'))
    expect(owed).toHaveLength(given.reduce((sum, count) => sum + count, 0))
  },
)
