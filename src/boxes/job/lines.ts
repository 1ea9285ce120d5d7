/** Whole lines out of pieces of text. A line that does not end is cut, so that memory does not grow with it. */
export class LineSplitter {
  static readonly longest = 64 * 1024
  readonly #take: (line: string) => void
  #rest = ''

  constructor(take: (line: string) => void) {
    this.#take = take
  }

  add(text: string): void {
    const [first = '', ...more] = text.split(/\r?\n|\r/)
    this.#rest += first
    for (const line of more) {
      this.#out()
      this.#rest = line
    }
    while (this.#rest.length > LineSplitter.longest) {
      this.#take(this.#rest.slice(0, LineSplitter.longest))
      this.#rest = this.#rest.slice(LineSplitter.longest)
    }
  }

  end(): void {
    this.#out()
  }

  #out(): void {
    if (this.#rest !== '') this.#take(this.#rest)
    this.#rest = ''
  }
}
