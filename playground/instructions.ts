/** The instructions scroll away, so they are also in a file of the state folder. */
import { rmSync, writeFileSync } from 'node:fs'
import { isAbsolute, join, relative } from 'node:path'

export class Instructions {
  readonly path: string
  #welcome: readonly string[] = []
  #bakes: readonly string[] = []

  /** @param state folder of the file */
  constructor(state: string) {
    this.path = join(state, 'instructions.txt')
  }

  get lines(): readonly string[] {
    return [...this.#welcome, ...this.#bakes]
  }

  setWelcome(lines: readonly string[]): void {
    this.#welcome = lines
    this.#write()
  }

  /** Commands for the results of bakes, which come at any time. */
  setBakes(lines: readonly string[]): void {
    this.#bakes = lines
    this.#write()
  }

  /** The commands work only while the playground runs. */
  remove(): void {
    rmSync(this.path, { force: true })
  }

  #write(): void {
    writeFileSync(this.path, `${this.lines.join('\n').trim()}\n`, { mode: 0o600 })
  }
}

/** The path as a user would type it in this folder. */
export function shortPath(path: string, folder: string): string {
  const short = relative(folder, path)
  return short.startsWith('..') || isAbsolute(short) ? path : short
}
