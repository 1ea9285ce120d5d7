import { expect, test } from 'vitest'
import { decodeLogRecords } from '../../../src/apis/outcome-segment.ts'
import type { WebhookDelivery, WebhookDeliveryStatus } from '../../../src/apis/webhook-delivery.ts'
import { shardOf } from '../../../src/ha/assignment.ts'
import type { LoggedOutcomes } from '../../../src/webhooks/log/store.ts'
import { againstLog, differenceOf } from './agreement.ts'

const UID = '0f5c'
const SHARD = shardOf(UID)
const FIRST = '2026-03-01T00:00:01.000Z'
const SECOND = '2026-03-01T00:00:31.000Z'
const FAILED = `4/0 failed {"at":${Date.parse(FIRST)},"ms":2,"code":500,"next":${Date.parse(SECOND)}}`
const SENT = `4/0 sent {"at":${Date.parse(SECOND)},"ms":3,"code":204}`

const attempt = { at: FIRST, latencyMs: 2, code: 500 }
const success = { at: SECOND, latencyMs: 3, code: 204 }
const succeeded: WebhookDeliveryStatus = {
  state: 'succeeded',
  attemptCount: 2,
  completedAt: '2026-03-01T00:00:31.003Z',
  attempts: [attempt, success],
}

function object(status: WebhookDeliveryStatus): WebhookDelivery {
  return {
    metadata: {
      uid: '1',
      namespace: 'acme',
      name: '3ywq8x2k1m5n7p9r0s4t6v8w2z-00000000',
      resourceVersion: '9',
    },
    spec: {
      endpoint: 'shop',
      endpointUid: UID,
      deliveryId: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z',
      eventType: 'order.paid',
      position: '4/0',
      payload: '{}',
      writtenAt: FIRST,
    },
    status,
  }
}

function segment(version: number, writer: string, ...lines: string[]): LoggedOutcomes {
  const { records } = decodeLogRecords({ records: lines.join('\n') })
  expect(records).toHaveLength(lines.length)
  return { name: `o-${version}`, version, writer, createdAt: 0, lowWater: 0, size: 0, records }
}

const LOGGED = [segment(5, 'a', `claim ${SHARD}`), segment(6, 'a', FAILED), segment(7, 'a', SENT)]

test.for([
  ['as it is in the log', object(succeeded), LOGGED],
  [
    'alone, since it has the state',
    object(succeeded),
    [segment(6, 'a', FAILED), segment(7, 'a', '4/0 moved')],
  ],
  [
    'against a controller that had lost the shard',
    object(succeeded),
    [
      ...LOGGED,
      segment(8, 'b', `claim ${SHARD} after 7`),
      segment(9, 'a', '4/0 canceled {"reason":"HeldTooLong"}'),
    ],
  ],
] as const)('an object stands %s', ([, one, outcomes]) => {
  expect(againstLog([one], outcomes)).toEqual([])
  expect(againstLog([one], outcomes.toReversed())).toEqual([])
})

test.for([
  ['another end', object({ ...succeeded, state: 'exhausted' }), LOGGED],
  ['an attempt less', object({ ...succeeded, attempts: [success] }), LOGGED],
  ['an attempt more', object({ ...succeeded, attempts: [attempt, attempt, success] }), LOGGED],
  ['another time', object({ ...succeeded, attempts: [attempt, attempt] }), LOGGED],
  [
    'no attempt',
    object({ state: 'retrying', attemptCount: 1 }),
    [segment(6, 'a', FAILED), segment(7, 'a', '4/0 moved')],
  ],
] as const)('an object that says %s is found', ([, one, outcomes]) => {
  expect(againstLog([one], outcomes)).toHaveLength(1)
})

const line = {
  endpointId: 'whe_shop',
  deliveryId: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z',
  eventType: 'order.paid',
  createdAt: FIRST,
  status: 'succeeded',
  attemptCount: 2,
  completedAt: succeeded.completedAt,
  attempts: [attempt, success],
}

test('a REST server agrees with an object if it says the same of it', () => {
  expect(differenceOf(object(succeeded), 200, { delivery: line })).toBe('')
  const untouched = { ...line, status: 'pending', attemptCount: 0, completedAt: undefined, attempts: [] }
  expect(differenceOf(object({}), 200, { delivery: untouched })).toBe('')
})

test.for([
  { status: 'retrying' },
  { attemptCount: 1 },
  { completedAt: FIRST },
  { nextAttemptAt: SECOND },
  { attempts: [attempt] },
  { attempts: [attempt, { ...success, code: 200 }] },
  { endpointId: 'whe_other' },
  { deliveryId: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w20' },
])('a REST server that says %o disagrees', (other) => {
  expect(differenceOf(object(succeeded), 200, { delivery: { ...line, ...other } })).toContain('by REST')
})

test('a REST server that does not know it disagrees', () => {
  expect(differenceOf(object(succeeded), 404, { type: 'not_found' })).toContain('is answered with 404')
})
