import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { endpointTag, messageId, sortableName } from '../../apis/ids.ts'
import { packedName } from './line-table.ts'
import { Lines } from './lines.ts'
import { mergedLines, positionOf, readPosition } from './merged-lines.ts'

const ENDPOINTS = 4
const START = Date.UTC(2026, 0, 31, 12)

type Delivery = { event: number; endpoint: number }

function keyOf({ event, endpoint }: Delivery): string {
  return `${messageId(sortableName(START + event, new Uint8Array(10)))}-${endpointTag(`uid-${endpoint}`)}`
}

function linesOf(deliveries: readonly Delivery[]) {
  const lines = new Lines(1000, () => undefined)
  for (const { event, endpoint } of deliveries) {
    const id = packedName(sortableName(START + event, new Uint8Array(10)))
    const log = lines.logs.findOrAdd('org', `uid-${endpoint}`)
    if (id && log.lines.find(id) === 0xffff_ffff)
      lines.add(log, id, { type: 'test.happened', bodyBytes: 2, sharesBody: false })
  }
  return lines
}

const deliveries = fc.array(
  fc.record({ event: fc.nat({ max: 20 }), endpoint: fc.nat({ max: ENDPOINTS - 1 }) }),
  { maxLength: 60 },
)

test('the lines of several endpoints are those of one sorted list, from any position on', () => {
  fc.assert(
    fc.property(deliveries, fc.nat({ max: 59 }), (given, at) => {
      const lines = linesOf(given)
      const logs = [...lines.logs.in('org')]
      const wanted = [...new Set(given.map(keyOf))].sort()
      const keys = (after?: string) =>
        [...mergedLines(lines, logs, after === undefined ? undefined : readPosition(after))].map((line) =>
          positionOf(lines, line),
        )
      expect(keys()).toEqual(wanted)
      const after = wanted[at % (wanted.length || 1)]
      if (after === undefined) return
      expect(keys(after)).toEqual(wanted.filter((key) => key > after))
      const event = after.slice(0, 30)
      expect(keys(event)).toEqual(wanted.filter((key) => key.slice(0, 30) > event))
    }),
  )
})

test('a position stays where it is when the endpoint there has gone', () => {
  const given = [0, 1, 2].flatMap((event) => [0, 1, 2].map((endpoint) => ({ event, endpoint })))
  const sorted = given.map(keyOf).sort()
  const after = sorted[4] ?? ''
  const gone = given.find((one) => keyOf(one) === after)?.endpoint
  const left = given.filter(({ endpoint }) => endpoint !== gone)
  const lines = linesOf(left)
  const position = readPosition(after)
  const found = [...mergedLines(lines, [...lines.logs.in('org')], position)]
  expect(found.map((line) => positionOf(lines, line))).toEqual(
    left
      .map(keyOf)
      .sort()
      .filter((key) => key > after),
  )
})

test.each(['', 'msg_', `msg_${'u'.repeat(26)}`, 'whe_billing'])('"%s" is no position', (text) => {
  expect(readPosition(text)).toBeUndefined()
})
