/** What a run found, line by line, and whether it was what was expected. */

export type Findings = {
  /** Says it and counts it. */
  check(what: string, is: boolean, seen: string): void
  readonly wrong: number
}

export function createFindings(say: (line: string) => void): Findings {
  let wrong = 0
  return {
    check(what, is, seen) {
      if (!is) wrong += 1
      say(`${is ? 'ok   ' : 'WRONG'}  ${what}: ${seen}`)
    },
    get wrong() {
      return wrong
    },
  }
}
