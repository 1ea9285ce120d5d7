import type { LoggedOutcomes } from './seen-outcomes.ts'

/** What is younger was there when the first list was read: it is kept for two minutes, and lists go back for one. */
const KEPT_MS = 30_000

/** Which part of the sequence of outcomes this process has read without a gap. */
export class OutcomeReadProgress {
  readonly #startedAt: number
  #from = 0
  #version = 0
  #isListed = false

  /** @param startedAt milliseconds since 1970 */
  constructor(startedAt: number) {
    this.#startedAt = startedAt
  }

  /** Every segment up to this version was taken in, as far as there was one. */
  get version(): number {
    return this.#version
  }

  /** Before this version some may have been deleted before they were read. */
  get from(): number {
    return this.#from
  }

  /**
   * The first list has ended: what comes now is shown by the watch, and nothing can have gone before it. So a clock that is ahead of the API
   * server's, by which all that comes looks old, costs what the list would have told, and no more.
   */
  listComplete(): void {
    this.#isListed = true
  }

  /** In the order of the log. @param createdAt by the API server, milliseconds since 1970; absent: now */
  advance({
    version,
    createdAt = this.#startedAt,
  }: Pick<LoggedOutcomes, 'version'> & { createdAt?: number }): void {
    if (!this.#isListed) {
      if (this.#version === 0 && createdAt < this.#startedAt) this.#from = version - 1
      if (createdAt < this.#startedAt - KEPT_MS) this.#from = version
    }
    this.#version = Math.max(this.#version, version)
  }
}
