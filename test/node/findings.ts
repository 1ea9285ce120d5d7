/** What a run found, line by line, and whether it was what was expected. */

export type Findings = {
  /** Says it and counts it. */
  check(what: string, is: boolean, seen: string): void
  /** A part of a run. A failure to complete it is reported and counted, and does not keep the others from running. */
  part(what: string, work: () => Promise<void>): Promise<void>
  readonly wrong: number
}

export function createFindings(say: (line: string) => void): Findings {
  let wrong = 0
  const check = (what: string, is: boolean, seen: string) => {
    if (!is) wrong += 1
    say(`${is ? 'ok   ' : 'WRONG'}  ${what}: ${seen}`)
  }
  return {
    check,
    async part(what, work) {
      try {
        await work()
      } catch (error) {
        check(`${what} comes to its end`, false, error instanceof Error ? error.message : String(error))
      }
    },
    get wrong() {
      return wrong
    },
  }
}
