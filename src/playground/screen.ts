/** What the terminal shows: one line for each attempt, readable at a glance. */
import type { Received } from './receiver.ts'

const COLUMNS = { time: 8, type: 26, endpoint: 14, attempt: 7 } as const

export type Screen = {
  note(text: string): void
  heading(): void
  show(received: Received): void
}

/** @param colored whether the output understands colors */
export function createScreen(write: (line: string) => void, colored: boolean): Screen {
  const paint = (code: number, text: string) => (colored ? `\u001b[${code}m${text}\u001b[0m` : text)
  const green = (text: string) => paint(32, text)
  const yellow = (text: string) => paint(33, text)
  const red = (text: string) => paint(31, text)
  const dim = (text: string) => paint(2, text)
  return {
    note: (text) => write(text),
    heading: () =>
      write(
        dim(
          `${cell('time', 'time')}${cell('type', 'type')}${cell('endpoint', 'endpoint')}${cell('attempt', 'attempt')}result`,
        ),
      ),
    show(received) {
      const { at, type, endpoint, attempt, verified, code } = received
      const words = code === 200 ? '200 delivered' : `${code} failed, will be retried`
      const result = (code === 200 ? green : yellow)(words.padEnd(28))
      const signature = verified ? green('signature verified') : red('SIGNATURE NOT VERIFIED')
      const ordered = endpoint === 'audit' ? `${endpoint} (ordered)` : endpoint
      write(
        `${dim(cell('time', at.toTimeString().slice(0, 8)))}${cell('type', type)}${cell('endpoint', ordered, 17)}` +
          `${cell('attempt', String(attempt))}${result}  ${signature}`,
      )
    },
  }
}

function cell(column: keyof typeof COLUMNS, text: string, width: number = COLUMNS[column]): string {
  return `${text.padEnd(column === 'endpoint' ? Math.max(width, 17) : width)}  `
}
