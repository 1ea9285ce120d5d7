import { describe, expect, it } from 'vitest'
import { progressTo } from './cache.ts'

function stream(isTTY: boolean, columns = 80) {
  const written: string[] = []
  return { isTTY, columns, written, write: (text: string) => written.push(text) }
}

describe('progressTo', () => {
  it('writes over one line of a terminal, and leaves none', () => {
    const out = stream(true)
    const progress = progressTo(out)
    progress.show('1 of 3')
    progress.show('2 of 3')
    progress.end()
    expect(out.written).toEqual(['\r\u001b[2K1 of 3', '\r\u001b[2K2 of 3', '\r\u001b[2K'])
  })

  it('cuts what would wrap on the terminal', () => {
    const out = stream(true, 5)
    progressTo(out).show('1 of 1000')
    expect(out.written).toEqual(['\r\u001b[2K1 of'])
  })

  it('writes a line at once, and then one every ten seconds, where there is no terminal', () => {
    let now = 0
    const out = stream(false)
    const progress = progressTo(out, () => now)
    for (let second = 0; second <= 25; second++) {
      now = second * 1_000
      progress.show(`${second} of 25`)
    }
    progress.end()
    expect(out.written).toEqual(['0 of 25\n', '10 of 25\n', '20 of 25\n'])
  })

  it('does not repeat itself in a log', () => {
    let now = 0
    const out = stream(false)
    const progress = progressTo(out, () => now)
    progress.show('linking')
    now = 60_000
    progress.show('linking')
    expect(out.written).toEqual(['linking\n'])
  })
})
