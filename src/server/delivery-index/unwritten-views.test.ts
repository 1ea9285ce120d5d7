import { expect, test } from 'vitest'
import { ATTEMPT, BILLING, nameAt, sent } from '../../../test/support/delivery-index-bed.ts'
import type { ChangeListener, DeliveryChange } from './changes.ts'
import { packedName } from './line-table.ts'
import { DeliveryLines, type ObjectDelivery } from './line-updates.ts'

/** A view is created without its status, and the watch of the log may be behind that of objects: the first report of a success has its attempt. */

const VERSION = 5
const name = nameAt(1)
const delivery = {
  namespace: 'org',
  endpointUid: BILLING.uid,
  endpointName: BILLING.name,
  id: packedName(name) ?? new Uint32Array(0),
  type: 'test.happened',
  redeliveryOf: undefined,
  bodyBytes: 2,
  sharesBody: false,
  state: 'succeeded',
  attempts: 1,
  at: Date.parse(ATTEMPT.at),
} as unknown as ObjectDelivery

const STEPS = {
  segment: (lines: DeliveryLines) => {
    lines.segment({
      name: 'segment',
      version: VERSION,
      writtenAt: 0,
      createdAt: 0,
      bytes: 100,

      bodies: [],
      unreadable: 0,
      deliveries: [
        {
          index: 0,
          eventIndex: 0,
          event: { id: name, namespace: 'org', type: 'test.happened', bodyBytes: 2, receivers: 1 },
          endpoint: { name: BILLING.name, uid: BILLING.uid },
        },
      ],
      undelivered: [],
    })
    for (const _ of lines.segmentsSeenUpTo(VERSION));
  },
  outcome: (lines: DeliveryLines) =>
    lines.outcomes({ name: 'outcome', version: 6, writtenAt: 0, writer: 'a', records: [sent(VERSION)] }),
  created: (lines: DeliveryLines) => lines.object({ ...delivery, isUnwritten: true }, 7),
  written: (lines: DeliveryLines) => lines.object({ ...delivery, storedAttempts: [ATTEMPT] }, 8),
}

const ORDERS = [
  ['segment', 'outcome', 'created', 'written'],
  ['segment', 'created', 'outcome', 'written'],
  ['segment', 'created', 'written', 'outcome'],
  ['created', 'segment', 'outcome', 'written'],
  ['created', 'segment', 'written', 'outcome'],
  ['created', 'written', 'segment', 'outcome'],
  // Its writer has died.
  ['segment', 'outcome', 'created'],
  ['segment', 'created', 'outcome'],
  ['created', 'segment', 'outcome'],
] as const

test.each(ORDERS.map((order) => [order.join(', '), order] as const))('%s', (_, order) => {
  const told: (DeliveryChange | undefined)[] = []
  const listener: ChangeListener = {
    wants: () => true,
    event: () => undefined,
    delivery: (_change, read) => void told.push(read()),
    seenUpTo: () => undefined,
  }
  const lines = new DeliveryLines(100, () => expect.unreachable('records are lost'), listener)
  lines.claimsRead([], 1)
  for (const step of order) STEPS[step](lines)
  expect(told).toMatchObject([{ status: { state: 'succeeded', attempts: 1 }, attempts: [ATTEMPT] }])
})
