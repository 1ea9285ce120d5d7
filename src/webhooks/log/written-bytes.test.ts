import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import type { AcceptedEvent } from '../../apis/delivery-segment.ts'
import { encodeLogRecord, newOutcomeSegment } from '../../apis/outcome-segment.ts'
import { segmentLines, segmentSpec } from './codec.ts'
import { segmentBytes } from './reader.ts'
import { writtenBy } from './written-bytes.ts'

const AT = '2026-01-31T12:00:01.000Z'

function event(namespace: string, payload: string, receivers = 1): AcceptedEvent {
  const id = '0123456789abcdefghjkmnpqrs'
  const targets = Array.from({ length: receivers }, (_, n) => ({
    name: `endpoint-${n}`,
    uid: '6b1f7c5e-2d3a-4b8e-9c1d-0a2b3c4d5e6f',
  }))
  return { event: { id, namespace, type: 'environment.started', payload }, targets }
}

function stored(spec: object): number {
  return segmentBytes({ metadata: { name: 'segment' }, spec } as never)
}

function written(events: readonly AcceptedEvent[]): ReadonlyMap<string, number> {
  return writtenBy(segmentLines(events), stored(segmentSpec(events, 'test', 0)))
}

function total(of: ReadonlyMap<string, number>): number {
  return [...of.values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** As they are written together. */
function outcomesOf(count: number): number {
  const records = Array.from({ length: count }, (_, index) => {
    const attempt = { at: AT, latencyMs: 12, code: 200, response: '{"ok":true}' }
    return encodeLogRecord({ kind: 'sent', position: { version: 48_213, index }, attempt, object: false })
  })
  const head = { writtenAt: Date.parse(AT), writer: 'test', lowWater: '48213' }
  return stored(newOutcomeSegment(head, records.join('\n')))
}

const random = (bytes: number) => randomBytes(bytes).toString('base64')

test.each([
  { what: 'one small event', events: [event('acme', '{}')] },
  { what: 'an event without receivers', events: [event('acme', '{}', 0)] },
  { what: 'an event for many', events: [event('acme', random(200), 500)] },
  { what: 'many events', events: Array.from({ length: 300 }, () => event('acme', random(200))) },
  { what: 'a body full of quotes', events: [event('acme', random(60_000).split('').join('"'))] },
  { what: 'a large body', events: [event('acme', random(180_000))] },
])('$what counts at least as it is stored, together with its outcomes', ({ events }) => {
  const deliveries = events.reduce((sum, { targets }) => sum + targets.length, 0)
  const spec = stored(segmentSpec(events, 'test', 0))
  // One outcome alone is a segment of its own, but such a rate fills nothing.
  const outcomes = deliveries > 1 ? outcomesOf(deliveries) : 0
  expect(total(written(events))).toBeGreaterThanOrEqual(spec + outcomes)
  expect(total(written(events))).toBeLessThan(4 * (spec + outcomesOf(deliveries)))
})

test('each organization pays for its own events and deliveries', () => {
  const found = written([event('acme', 'x'.repeat(1000)), event('globex', '{}', 100), event('acme', '{}')])
  expect([...found.keys()]).toEqual(['acme', 'globex'])
  const [acme = 0, globex = 0] = found.values()
  expect(globex).toBeGreaterThan(10 * acme)
})

test('what is packed counts as small as it is, down to a tenth', () => {
  const plain = event('acme', random(100_000), 0)
  const alike = event('acme', 'x'.repeat(133_336), 0)
  expect(total(written([alike]))).toBeLessThan(0.11 * total(written([plain])))
  expect(total(written([alike]))).toBeGreaterThan(0.09 * total(written([plain])))
})

test('lines that are only about a key count for their organization, and others for none', () => {
  const key = { namespace: 'acme', key: 'k', fingerprint: 'f' }
  const claim: AcceptedEvent = {
    event: { id: '0123456789abcdefghjkmnpqrs', type: 'davit:claim', payload: '', ...key },
    targets: [],
  }
  expect([...written([claim]).keys()]).toEqual(['acme'])
  expect([...writtenBy({ events: ['nonsense'], deliveries: '' }, 900).keys()]).toEqual([''])
  expect(total(writtenBy({ events: [], deliveries: '' }, 900))).toBe(0)
})
