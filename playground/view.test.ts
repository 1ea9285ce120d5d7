import { describe, expect, it } from 'vitest'
import { RECEIVED } from '../test/support/received.ts'
import { View } from './view.ts'

const HEADING =
  'time      type                       endpoint              attempt  result             signature'
const LINE = '03:04:05  environment.started        billing               1        200 delivered      verified'

function onTerminal() {
  const printed: string[] = []
  let pinned: readonly string[] = []
  const terminal = {
    print: (...lines: readonly string[]) => void printed.push(...lines),
    pin: (lines: readonly string[]) => {
      pinned = lines
    },
  }
  const view = new View({ write: () => undefined, colored: false, terminal })
  return { view, printed, pinned: () => pinned }
}

function inLog() {
  const printed: string[] = []
  return { view: new View({ write: (line) => printed.push(line), colored: false }), printed }
}

describe('on a terminal', () => {
  it('the counts and the keys stay below the attempts', () => {
    const { view, printed, pinned } = onTerminal()
    view.offerKeys({ areRead: true })
    view.list()
    view.show(RECEIVED)
    expect(printed).toEqual([HEADING, LINE])
    expect(pinned()).toEqual([
      '',
      'billing             1 delivered     0 failed attempts   0 retrying',
      'audit (ordered)     0 delivered     0 failed attempts   0 retrying',
      'p: pause   q: quit',
    ])
  })

  it('attempts during a pause are counted, not shown', () => {
    const { view, printed, pinned } = onTerminal()
    view.offerKeys({ areRead: true })
    view.pauseOrResume()
    view.show(RECEIVED)
    expect(printed).toEqual([])
    expect(pinned()[1]).toContain(' 1 delivered')
    expect(pinned().at(-1)).toBe('PAUSED, 1 attempt not shown   p: continue   q: quit')
    view.pauseOrResume()
    view.show(RECEIVED)
    expect(printed).toEqual(['1 attempt not shown during the pause.', HEADING, LINE])
    expect(pinned().at(-1)).toBe('p: pause   q: quit')
  })

  it('instructions that are shown again stay, since they pause the attempts', () => {
    const { view, printed } = onTerminal()
    view.present(['# publish'])
    view.show(RECEIVED)
    view.note('A controller ended.')
    view.list()
    expect(printed).toEqual(['# publish', 'A controller ended.'])
  })

  it('the end leaves the counts, and nothing pinned', () => {
    const { view, printed, pinned } = onTerminal()
    view.show(RECEIVED)
    printed.length = 0
    view.end(['1 delivery succeeded.'])
    view.show(RECEIVED)
    expect(pinned()).toEqual([])
    expect(printed.slice(0, 5)).toEqual([
      '',
      'billing             1 delivered     0 failed attempts   0 retrying',
      'audit (ordered)     0 delivered     0 failed attempts   0 retrying',
      '',
      '1 delivery succeeded.',
    ])
  })

  it('nothing is reported from time to time', () => {
    const { view, printed } = onTerminal()
    view.report()
    expect(printed).toEqual([])
  })
})

describe('in a log', () => {
  it('the counts are reported if they have changed', () => {
    const { view, printed } = inLog()
    view.show(RECEIVED)
    view.report()
    view.report()
    expect(printed).toEqual([
      LINE,
      '',
      'Deliveries so far:',
      'billing             1 delivered     0 failed attempts   0 retrying',
      'audit (ordered)     0 delivered     0 failed attempts   0 retrying',
      '',
    ])
  })
})
