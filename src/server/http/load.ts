import { Problem } from './problems.ts'

export type InFlightLimits = {
  /** Requests that are being answered at once. */
  requests: number
  /** Bytes of their bodies together. */
  bytes: number
}

/** What is in hand at once, so that memory is bounded whatever comes. */
export class InFlightLimiter {
  readonly #limits: InFlightLimits
  #requests = 0
  #bytes = 0

  constructor(limits: InFlightLimits) {
    this.#limits = limits
  }

  get requests(): number {
    return this.#requests
  }

  get bytes(): number {
    return this.#bytes
  }

  /** @returns what gives the place back, once @throws Problem overloaded */
  enter(): () => void {
    if (this.#requests >= this.#limits.requests) throw tooMuch()
    this.#requests += 1
    return once(() => {
      this.#requests -= 1
    })
  }

  /** Room for so many bytes. @returns what gives it back, once @throws Problem overloaded */
  reserve(bytes: number): () => void {
    if (this.#bytes + bytes > this.#limits.bytes) throw tooMuch()
    this.#bytes += bytes
    return once(() => {
      this.#bytes -= bytes
    })
  }
}

function tooMuch(): Problem {
  return new Problem('overloaded', { headers: { 'retry-after': '1' } })
}

function once(run: () => void): () => void {
  let done = false
  return () => {
    if (!done) run()
    done = true
  }
}
