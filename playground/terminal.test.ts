import { styleText } from 'node:util'
import { describe, expect, it } from 'vitest'
import { createTerminal } from './terminal.ts'

const ESCAPE = '\u001b'

/** The screen after all that was written, for the control sequences that are used; it never scrolls. */
class FakeScreen {
  columns = 20
  rows = 10
  readonly #lines = ['']
  #row = 0
  #column = 0

  write(text: string): void {
    const [plain = '', ...sequences] = text.split(ESCAPE)
    this.#put(plain)
    for (const sequence of sequences) {
      const [all, count, letter] = /^\[(\d*)([A-Za-z])/.exec(sequence) ?? ['']
      if (letter === 'A') this.#row -= Number(count)
      if (letter === 'J') {
        this.#lines.length = this.#row + 1
        this.#lines[this.#row] = this.#start()
      }
      this.#put(sequence.slice(all.length))
    }
  }

  lines(): string[] {
    return this.#lines
  }

  #put(text: string): void {
    for (const character of text) {
      if (character === '\n') {
        this.#row += 1
        this.#lines[this.#row] ??= ''
      }
      if (character === '\n' || character === '\r') this.#column = 0
      else {
        this.#lines[this.#row] = this.#start() + character
        this.#column += 1
      }
    }
  }

  #start(): string {
    return (this.#lines[this.#row] ?? '').slice(0, this.#column)
  }
}

describe('a terminal', () => {
  it('prints lines above the pinned ones', () => {
    const screen = new FakeScreen()
    const terminal = createTerminal(screen)
    terminal.print('first')
    terminal.pin(['', 'count 1', 'keys'])
    terminal.print('second')
    terminal.print('third')
    expect(screen.lines()).toEqual(['first', 'second', 'third', '', 'count 1', 'keys'])
  })

  it('replaces the pinned lines in place', () => {
    const screen = new FakeScreen()
    const terminal = createTerminal(screen)
    terminal.print('first')
    terminal.pin(['count 1', 'count 2', 'keys'])
    terminal.pin(['count 3', 'keys'])
    expect(screen.lines()).toEqual(['first', 'count 3', 'keys'])
    terminal.pin([])
    terminal.print('last')
    expect(screen.lines()).toEqual(['first', 'last', ''])
  })

  it('cuts pinned lines that would wrap, and keeps the last ones if there are too many', () => {
    const screen = new FakeScreen()
    screen.rows = 3
    const terminal = createTerminal(screen)
    terminal.pin(['one', 'two', styleText('dim', 'x'.repeat(30), { validateStream: false })])
    expect(screen.lines()).toEqual(['two', 'x'.repeat(19)])
  })

  it('erases pinned lines that wrap because the terminal became narrower', () => {
    const screen = new FakeScreen()
    const written: string[] = []
    const terminal = createTerminal({
      get columns() {
        return screen.columns
      },
      write: (text) => written.push(text),
    })
    terminal.pin(['x'.repeat(15)])
    screen.columns = 10
    terminal.pin(['y'])
    expect(written.at(-1)).toBe('\u001b[1A\r\u001b[Jy')
  })
})
