/**
 * Everything that the playground shows. On a terminal, a line per endpoint and the keys stay at the bottom, below the attempts; in
 * a log, the endpoints are reported from time to time.
 */
import { styleText } from 'node:util'
import { counted } from '../src/lib/text.ts'
import { Counters } from './counters.ts'
import { describeKeys } from './keys.ts'
import type { Received } from './receiver.ts'
import { createScreen, type Screen } from './screen.ts'
import type { Terminal } from './terminal.ts'

export type ViewOptions = {
  write: (line: string) => void
  /** Whether the output may have colors. */
  colored: boolean
  /** Prints `write`'s lines above pinned ones. Absent: the output is not a terminal. */
  terminal?: Terminal | undefined
}

export class View {
  readonly #print: (...lines: readonly string[]) => void
  readonly #screen: Screen
  readonly #terminal: Terminal | undefined
  readonly #colored: boolean
  readonly #counters = new Counters()
  #keys: Parameters<typeof describeKeys>[0] | undefined
  #reported = ''
  /** Attempts that were not shown since the list was paused; absent while it is not. */
  #omitted: number | undefined
  #isEnded = false

  constructor({ write, colored, terminal }: ViewOptions) {
    const log = (...lines: readonly string[]) => {
      for (const line of lines) write(line)
    }
    this.#print = terminal?.print ?? log
    this.#screen = createScreen(this.#print, colored)
    this.#terminal = terminal
    this.#colored = colored
  }

  note(...lines: readonly string[]): void {
    this.#print(...lines)
  }

  /** Starts the list of attempts, or resumes it after other lines. */
  list(): void {
    if (this.#omitted === undefined) this.#screen.heading()
    this.#pin()
  }

  offerKeys(keys: Parameters<typeof describeKeys>[0]): void {
    this.#keys = keys
    this.#pin()
  }

  show(received: Received): void {
    this.#counters.add(received)
    if (this.#omitted === undefined) this.#screen.show(received)
    else this.#omitted += 1
    this.#pin()
  }

  /** Prints lines to be read, and pauses the list so that they stay. */
  present(lines: readonly string[]): void {
    this.#omitted ??= 0
    this.note(...lines)
    this.#pin()
  }

  pauseOrResume(): void {
    if (this.#omitted === undefined) this.#omitted = 0
    else {
      this.note(`${counted(this.#omitted, 'attempt')} not shown during the pause.`)
      this.#omitted = undefined
      this.#screen.heading()
    }
    this.#pin()
  }

  /** In a log, prints the counts if there are new ones. */
  report(): void {
    const lines = this.#counters.lines()
    if (this.#terminal !== undefined || lines.join() === this.#reported) return
    this.#reported = lines.join()
    this.note('', 'Deliveries so far:', ...lines, '')
  }

  /** Prints the final counts and the other lines. */
  end(lines: readonly string[]): void {
    this[Symbol.dispose]()
    this.note('', ...this.#counters.lines(), '', ...lines)
  }

  /** Pins nothing any more. */
  [Symbol.dispose](): void {
    this.#terminal?.pin([])
    this.#isEnded = true
  }

  #pin(): void {
    if (this.#isEnded) return
    const isPaused = this.#omitted !== undefined
    const pause = isPaused ? `PAUSED, ${counted(this.#omitted ?? 0, 'attempt')} not shown   ` : ''
    const keys = this.#keys && `${pause}${describeKeys(this.#keys, isPaused)}`
    this.#terminal?.pin(['', ...this.#counters.lines(), ...(keys ? [this.#dim(keys)] : [])])
  }

  #dim(text: string): string {
    return this.#colored ? styleText('dim', text, { validateStream: false }) : text
  }
}
