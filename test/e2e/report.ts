/** What a run has found out: how long each phase took, figures, and what was not as it must be. */
import { createFindings, type Findings } from '../node/findings.ts'

export class Report {
  readonly findings: Findings
  readonly #say: (line: string) => void
  readonly #rows: [string, string][] = []

  constructor(say: (line: string) => void) {
    this.#say = say
    this.findings = createFindings(say)
  }

  say(line: string): void {
    this.#say(`       ${line}`)
  }

  check(what: string, is: boolean, seen: string): void {
    this.findings.check(what, is, seen)
  }

  figure(what: string, value: string): void {
    this.#rows.push([what, value])
    this.#say(`       ${what}: ${value}`)
  }

  async phase<T>(name: string, work: () => Promise<T>): Promise<T> {
    this.#say(`-----  ${name}`)
    const begin = performance.now()
    const end = (how: string) =>
      this.#rows.push([name, `${((performance.now() - begin) / 1000).toFixed(1)} s${how}`])
    try {
      const result = await work()
      end('')
      return result
    } catch (error) {
      end(', and did not come to its end')
      throw error
    }
  }

  /** Everything once more, in one table. */
  table(): void {
    const width = Math.max(...this.#rows.map(([what]) => what.length))
    this.#say('')
    for (const [what, value] of this.#rows) this.#say(`${what.padEnd(width)}  ${value}`)
    this.#say(`${'not as it must be'.padEnd(width)}  ${this.findings.wrong}`)
  }
}
