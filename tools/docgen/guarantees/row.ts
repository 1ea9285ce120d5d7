/** One promise or failure, and what proves it. */

/** Figures of one file of results, by their keys there; a dot goes one deeper. */
export type FigureChoice = { of: string; keys: readonly string[] }

export type Row = {
  name: string
  /** What holds it, or what is expected. */
  how: string
  /** `` `file`: name of a test `` as in docs/rules.md; `*` for all of the file. */
  tests: readonly string[]
  figures?: readonly FigureChoice[]
}
