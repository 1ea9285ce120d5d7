import { describe, expect, it } from 'vitest'
import { MAX_ATTEMPTS } from '../src/webhooks/delivery/retry-schedule.ts'
import { RECEIVED } from '../test/support/received.ts'
import { Counters } from './counters.ts'
import type { Received } from './receiver.ts'

function linesAfter(...all: Partial<Received>[]): string[] {
  const counters = new Counters()
  for (const one of all) counters.add({ ...RECEIVED, ...one })
  return counters.lines()
}

describe('the line of an endpoint', () => {
  it('is there before the first attempt', () => {
    expect(linesAfter()).toEqual([
      'billing             0 delivered     0 failed attempts   0 retrying',
      'audit (ordered)     0 delivered     0 failed attempts   0 retrying',
    ])
  })

  it('counts a delivery as retrying until it succeeds', () => {
    const failed = { id: 'msg_2', code: 503 }
    expect(linesAfter({}, failed)[0]).toMatch(/ 1 delivered +1 failed attempt +1 retrying$/)
    expect(linesAfter({}, failed, { ...failed, attempt: 2 })[0]).toMatch(/ 2 failed attempts +1 retrying$/)
    expect(linesAfter({}, failed, { id: 'msg_2', attempt: 2 })[0]).toMatch(
      / 2 delivered +1 failed attempt +0 retrying$/,
    )
  })

  it('says that an ordered endpoint holds later deliveries back while it retries', () => {
    expect(linesAfter({ endpoint: 'audit', code: 503 })[1]).toMatch(/ 1 retrying, others wait$/)
  })

  it('counts a delivery without further attempts as exhausted', () => {
    const last = { code: 503, attempt: MAX_ATTEMPTS }
    expect(linesAfter({ code: 503 }, last)[0]).toMatch(/ 0 retrying {2}1 exhausted$/)
  })

  it('names signatures that do not verify', () => {
    expect(linesAfter({ code: 401, verified: false })[0]).toMatch(/ 0 retrying {2}1 NOT VERIFIED$/)
  })
})

describe('the lines', () => {
  it('fit a terminal of 80 columns', () => {
    const failed = { endpoint: 'audit', code: 503 }
    const many = Array.from({ length: 1000 }, () => [{}, failed]).flat()
    expect(Math.max(...linesAfter(...many).map((line) => line.length))).toBeLessThan(80)
  })

  it('include endpoints that the user creates, up to a limit', () => {
    const own = Array.from({ length: 10 }, (_, index) => ({ endpoint: `mine-${index}` }))
    const lines = linesAfter(...own)
    expect(lines[2]).toMatch(/^mine-0 +1 delivered/)
    expect(lines).toHaveLength(7)
    expect(lines.at(-1)).toBe('and 6 more')
  })
})
