/** Formats one line per attempt for the terminal, readable at a glance and at most 100 columns wide. */
import { stripVTControlCharacters, styleText } from 'node:util'
import { MAX_ATTEMPTS } from '../src/webhooks/delivery/retry-schedule.ts'
import { isOrdered } from './organization.ts'
import type { Received } from './receiver.ts'

/** In display order, with their widths; the last one is as wide as its text. */
const COLUMNS = { time: 8, type: 25, endpoint: 20, attempt: 7, result: 17, signature: 0 } as const
const GAP = '  '

type Column = keyof typeof COLUMNS
type Color = 'green' | 'yellow' | 'red' | 'dim'

export type Screen = {
  heading(): void
  show(received: Received): void
}

/** @param colored whether the output supports colors and the reader wants them */
export function createScreen(write: (line: string) => void, colored: boolean): Screen {
  const paint = (color: Color, text: string) =>
    colored ? styleText(color, text, { validateStream: false }) : text
  const line = (cells: Record<Column, string>, colors: Partial<Record<Column, Color>>) =>
    columns()
      .map((column) => {
        const text = fitted(cells[column], COLUMNS[column])
        const color = colors[column]
        return color === undefined ? text : paint(color, text)
      })
      .join(GAP)
  return {
    heading() {
      const names = columns().map((column) => [column, column] as const)
      write(paint('dim', line(Object.fromEntries(names) as Record<Column, string>, {})))
    },
    show({ at, type, endpoint, attempt, verified, code }) {
      const delivered = code === 200
      const next = attempt < MAX_ATTEMPTS ? 'will retry' : 'last attempt'
      const cells = {
        time: at.toTimeString().slice(0, 8),
        type,
        endpoint: labelOf(endpoint),
        attempt: String(attempt),
        result: delivered ? '200 delivered' : `${code} ${next}`,
        signature: verified ? 'verified' : 'NOT VERIFIED',
      }
      const signature = verified ? 'green' : 'red'
      write(line(cells, { time: 'dim', result: delivered ? 'green' : 'yellow', signature }))
    },
  }
}

function columns(): Column[] {
  return Object.keys(COLUMNS) as Column[]
}

export function labelOf(endpoint: string): string {
  return isOrdered(endpoint) ? `${endpoint} (ordered)` : endpoint
}

/** Names may be of any length, and anyone may send to the receiver. */
export function fitted(text: string, width: number): string {
  const clean = stripVTControlCharacters(text).replaceAll(/\p{Cc}/gu, ' ')
  if (width === 0) return clean
  return clean.length > width ? `${clean.slice(0, width - 1)}…` : clean.padEnd(width)
}
