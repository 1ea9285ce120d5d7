import { stripVTControlCharacters } from 'node:util'
import { describe, expect, it } from 'vitest'
import { builtinEventTypes } from '../src/apis/builtin-event-types.ts'
import { RECEIVED } from '../test/support/received.ts'
import type { Received } from './receiver.ts'
import { createScreen } from './screen.ts'

const WIDTH = 100

function render(colored: boolean, ...all: Partial<Received>[]): string[] {
  const lines: string[] = []
  const screen = createScreen((line) => lines.push(line), colored)
  screen.heading()
  for (const one of all) screen.show({ ...RECEIVED, ...one })
  return lines
}

/** Where each column of the heading starts. */
function startsOf(heading: string): number[] {
  return [...heading.matchAll(/\w+/g)].map(({ index }) => index)
}

const CASES: Partial<Received>[] = [
  {},
  { endpoint: 'audit', code: 503, attempt: 2 },
  { code: 401, verified: false, attempt: 8 },
  { endpoint: 'x'.repeat(253), type: 'y'.repeat(128), code: 503 },
  ...builtinEventTypes.map(({ metadata }) => ({ type: metadata.name })),
]

describe('the lines of attempts', () => {
  it('say what happened', () => {
    expect(render(false, {}, { endpoint: 'acme/audit', code: 503, attempt: 2 })).toEqual([
      'time      type                       endpoint              attempt  result             signature',
      '03:04:05  environment.started        billing               1        200 delivered      verified',
      '03:04:05  environment.started        acme/audit (ordered)  2        503 will retry     verified',
    ])
  })

  it('say so when a signature does not verify, and when there is no attempt left', () => {
    const [, line] = render(false, { code: 401, verified: false, attempt: 8 })
    expect(line).toMatch(/ 8 +401 last attempt +NOT VERIFIED$/)
  })

  it('stand in their columns and fit a terminal of 100, whatever the names are', () => {
    const [heading = '', ...lines] = render(false, ...CASES)
    for (const line of lines) {
      expect(line.length).toBeLessThanOrEqual(WIDTH)
      for (const at of startsOf(heading).slice(1)) expect(line.slice(at - 2, at + 1)).toMatch(/^ {2}\S/)
    }
  })

  it('never cut the name of a type that Davit ships', () => {
    for (const { metadata } of builtinEventTypes)
      expect(render(false, { type: metadata.name })[1]).toContain(` ${metadata.name} `)
  })

  it('are the same text with colors', () => {
    const colored = render(true, ...CASES)
    expect(colored.map(stripVTControlCharacters)).toEqual(render(false, ...CASES))
    expect(colored.every((line) => line.includes('\u001b['))).toBe(true)
  })

  it('pass no control characters of the sender on to the terminal', () => {
    const [, line = ''] = render(false, { type: '\u001b[2Jcleared\nand\rmore' })
    expect(line).toMatch(/ cleared and more /)
    expect(line).not.toMatch(/\p{Cc}/u)
  })
})
