import { describe, expect, it } from 'vitest'
import { sortableName } from '../../apis/ids.ts'
import { packedName } from './line-table.ts'
import { Lines } from './lines.ts'
import { LINES_PER_PAGE, type LogQuery, logPage } from './queries.ts'

const MANY = 41_000
const ENDPOINT = { namespace: 'org', name: 'billing', uid: 'uid' }
const START = Date.UTC(2026, 0, 31, 12)

/** The rare type shares its bit with the common one, so that every block has to be looked into. */
function typeOf(number: number): string {
  if (number === 100) return 'test.rare'
  return number > 0 && number < 32 ? `test.other-${number}` : 'test.common'
}

function manyLines(): Lines {
  const lines = new Lines(MANY, () => undefined)
  for (let number = 0; number < MANY; number += 1) {
    const id = packedName(nameAt(number))
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    if (id) lines.add(log, id, { type: typeOf(number), bodyBytes: 2, sharesBody: false })
  }
  return lines
}

function nameAt(number: number): string {
  return sortableName(START + number, new Uint8Array(10))
}

function all(lines: Lines, query: Partial<LogQuery>): { ids: string[]; pages: number } {
  const ids: string[] = []
  let pages = 0
  let after: string | undefined
  do {
    const page = logPage(lines, [ENDPOINT], { limit: 5, ...query, after })
    ids.push(...page.deliveries.map(({ deliveryId }) => deliveryId))
    pages += 1
    after = page.next
  } while (after !== undefined)
  return { ids, pages }
}

describe('a page of a long log', () => {
  it('looks at so many lines, and says where the next one goes on', () => {
    const lines = manyLines()
    const first = logPage(lines, [ENDPOINT], { limit: 5, eventType: 'test.rare' })
    expect(first).toEqual({ deliveries: [], next: expect.any(String) })
    expect(first.next?.slice(0, 30)).toBe(`msg_${nameAt(MANY - LINES_PER_PAGE)}`)
    expect(all(lines, { eventType: 'test.rare' })).toEqual({ ids: [`msg_${nameAt(100)}`], pages: 3 })
  })

  it('goes on where it was although the line there has gone since', () => {
    const lines = manyLines()
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    const { next } = logPage(lines, [ENDPOINT], { limit: 5, eventType: 'test.rare' })
    for (let number = 5000; number < MANY; number += 1) {
      const id = packedName(nameAt(number))
      if (id) lines.remove(log.lines.find(id))
    }
    const page = logPage(lines, [ENDPOINT], { limit: 5, eventType: 'test.rare', after: next })
    expect(page.deliveries).toHaveLength(1)
  })
})

describe('the time of a delivery', () => {
  const idsAt = (...numbers: number[]) => numbers.map((number) => `msg_${nameAt(number)}`)

  it.each([
    { given: { since: START + 40_997 }, want: [40_999, 40_998, 40_997] },
    { given: { until: START + 3 }, want: [2, 1, 0] },
    {
      given: { since: START + 7, until: START + 20 },
      want: [19, 18, 17, 16, 15, 14, 13, 12, 11, 10, 9, 8, 7],
    },
    { given: { since: START + 7, until: START + 7 }, want: [] },
    { given: { since: START + 99, until: START + 200, eventType: 'test.rare' }, want: [100] },
    { given: { since: -1, until: 0 }, want: [] },
    { given: { since: Date.parse('9999-12-31T23:59:59Z') }, want: [] },
  ])('selects from $given.since on and before $given.until', ({ given, want }) => {
    expect(all(manyLines(), given).ids).toEqual(idsAt(...want))
  })

  it('is exact to the millisecond whatever the rest of the id', () => {
    const lines = new Lines(MANY, () => undefined)
    const log = lines.logs.findOrAdd(ENDPOINT.namespace, ENDPOINT.uid)
    const names = [0, 0x80, 0xff].map((byte) => sortableName(START, new Uint8Array(10).fill(byte)))
    for (const name of names) {
      const id = packedName(name)
      if (id) lines.add(log, id, { type: 'test.common', bodyBytes: 2, sharesBody: false })
    }
    expect(all(lines, { since: START, until: START + 1 }).ids).toEqual(names.map((name) => `msg_${name}`))
    expect(all(lines, { since: START + 1 }).ids).toEqual([])
    expect(all(lines, { until: START }).ids).toEqual([])
  })
})
