import { expect, test } from 'vitest'
import { acceptEvent, acceptRedelivery } from './plan.ts'

const NAME = '7ycfp16rfz0000000000000000'
const TARGETS = [{ name: 'billing', uid: 'uid-1' }]
const PUBLISHED = {
  name: NAME,
  namespace: 'acme',
  type: 'environment.started',
  dataText: '{"n":9007199254740993, "x":1.0}',
  happenedAt: Date.parse('2026-01-31T12:00:00.007Z'),
}

test('an event is stored with the exact body that its receivers get', () => {
  expect(acceptEvent(PUBLISHED, TARGETS)).toStrictEqual({
    event: {
      id: NAME,
      namespace: 'acme',
      type: 'environment.started',
      payload:
        '{"type":"environment.started","timestamp":"2026-01-31T12:00:00.007Z","data":{"n":9007199254740993, "x":1.0}}',
    },
    targets: TARGETS,
  })
})

test('a key is stored where one was given', () => {
  const { event } = acceptEvent({ ...PUBLISHED, key: 'once', fingerprint: 'of-the-request' }, TARGETS)
  expect(event).toMatchObject({ key: 'once', fingerprint: 'of-the-request' })
  expect(acceptEvent({ ...PUBLISHED, key: 'once' }, TARGETS).event).not.toHaveProperty('fingerprint')
})

test('an event for nobody has no targets', () => {
  expect(acceptEvent(PUBLISHED, []).targets).toEqual([])
})

test('a redelivery has the type and the body bytes of the original, an id of its own, and one target', () => {
  const payload = '{"type":"environment.started","timestamp":"2025-12-24T18:00:00.000Z","data": 1.0 }'
  const asked = {
    name: NAME,
    namespace: 'acme',
    type: 'environment.started',
    payload,
    redeliveryOf: 'msg_old',
  }
  const event = { id: NAME, namespace: 'acme', type: 'environment.started', payload, redeliveryOf: 'msg_old' }
  const target = { name: 'billing', uid: 'uid-1' }
  expect(acceptRedelivery(asked, target)).toStrictEqual({ event, targets: [target] })
  expect(acceptRedelivery({ ...asked, key: 'once' }, target).event).toStrictEqual({ ...event, key: 'once' })
})
