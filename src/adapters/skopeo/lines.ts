/** Whole lines out of pieces of text. A line that does not end is cut, so that memory does not grow with it. */
export class Lines {
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
    while (this.#rest.length > Lines.longest) {
      this.#take(this.#rest.slice(0, Lines.longest))
      this.#rest = this.#rest.slice(Lines.longest)
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
