import { expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { logOn } from '../../test/support/log-on.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { type AcceptedEvent, deliverySegments } from '../apis/delivery-segment.ts'
import { messageId, sortableName } from '../apis/ids.ts'
import { segmentSpec } from '../webhooks/log/codec.ts'
import { EventService } from './events.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const LOG = { namespace: 'davit-system', name: 'segment-1' }
const BODY = '{"type":"test.happened","timestamp":"2026-01-31T12:00:00.000Z","data":1.0}'

function accepted(
  number: number,
  receivers: number,
  given: Partial<AcceptedEvent['event']> = {},
): AcceptedEvent {
  const id = sortableName(NOW, new Uint8Array(10).fill(number))
  return {
    event: { id, namespace: 'acme', type: 'test.happened', payload: BODY, ...given },
    targets: Array.from({ length: receivers }, (_, at) => ({ name: `e${at}`, uid: `uid-${at}` })),
  }
}

/** The service on a log of one segment; `segment` is what the index answers. */
async function logOf(events: AcceptedEvent[], segment: string | undefined = LOG.name) {
  const resources = new MemoryStore(() => NOW)
  const [metadata, spec] = [LOG, segmentSpec(events, 'writer', NOW)]
  await resources.create(deliverySegments, { metadata, spec })
  const index = { segmentOfEvent: async () => segment }
  return new EventService({ store: logOn(resources, { clock: new FakeClock() }), index })
}

const idOf = ({ event }: AcceptedEvent) => messageId(event.id)

test('an event is what the log has of it, whether anybody gets it or not', async () => {
  const [toTwo, toNobody] = [accepted(1, 2), accepted(2, 0)]
  const events = await logOf([toTwo, toNobody])
  const common = { type: 'test.happened', createdAt: '2026-01-31T12:00:00.000Z', payload: BODY }
  expect(await events.read('acme', idOf(toTwo))).toEqual({ eventId: idOf(toTwo), deliveries: 2, ...common })
  expect(await events.read('acme', idOf(toNobody))).toEqual({
    eventId: idOf(toNobody),
    deliveries: 0,
    ...common,
  })
})

test('a redelivery names the delivery that it repeats', async () => {
  const again = accepted(1, 1, { redeliveryOf: 'msg_before' })
  const events = await logOf([again])
  expect(await events.read('acme', idOf(again))).toMatchObject({ deliveries: 1, redeliveryOf: 'msg_before' })
})

test.each([
  { why: 'that is of another organization', organization: 'other' },
  { why: 'whose segment retention has deleted', segment: 'segment-0' },
  { why: 'that the segment does not have', has: [accepted(3, 1)] },
])('there is no event $why', async ({ organization = 'acme', segment = LOG.name, has }) => {
  const event = accepted(1, 1)
  const events = await logOf(has ?? [event], segment)
  expect(await events.read(organization, idOf(event))).toBeUndefined()
})
