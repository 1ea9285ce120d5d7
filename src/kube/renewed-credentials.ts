import type { Clock } from '../lib/ports-clock.ts'
import { type CredentialSource, type Credentials, sameCredentials, sameTls } from './cluster-access.ts'

export type RenewalOptions = {
  first: Credentials
  /** Fetches again. `refused`: the server answered 401, so nothing that is cached may be given back. */
  load(refused: boolean): Promise<Credentials>
  /** Looks for new ones so often in the background; absent: only when the server refused. */
  everyMs?: number
  clock: Clock
}

/** A server that goes on refusing must not make each call run a plugin or read a file. */
const REFUSED_AGAIN_MS = 5_000
/** An exec plugin that hangs. */
const LOAD_LIMIT_MS = 30_000

/** Credentials that are looked up again in the background, and at once when the server refused them. */
export class RefreshingCredentials implements CredentialSource {
  readonly #options: RenewalOptions
  #held: Credentials
  #lookedAt: number
  #refusedAt = Number.NEGATIVE_INFINITY
  #refused = false
  #loading: { refused: boolean; done: Promise<Credentials> } | undefined

  constructor(options: RenewalOptions) {
    this.#options = options
    this.#held = options.first
    this.#lookedAt = options.clock.monotonic()
  }

  current(): Credentials | Promise<Credentials> {
    // A look that began before the refusal may bring what was refused.
    if (this.#refused) return this.#loading?.refused ? this.#loading.done : this.#load()
    const { everyMs, clock } = this.#options
    if (everyMs !== undefined && !this.#loading && clock.monotonic() - this.#lookedAt >= everyMs) {
      void this.#load()
    }
    return this.#held
  }

  refused(used: Credentials): void {
    const now = this.#options.clock.monotonic()
    if (used !== this.#held || now - this.#refusedAt < REFUSED_AGAIN_MS) return
    this.#refusedAt = now
    this.#refused = true
  }

  /** Never rejects: what cannot be fetched leaves the old ones in use, and the server's 401 tells. */
  #load(): Promise<Credentials> {
    const { load, clock } = this.#options
    const refused = this.#refused
    const done = within(LOAD_LIMIT_MS, load(refused), clock)
      .catch(() => undefined)
      .then((next) => {
        if (this.#loading !== loading) return this.#held
        this.#loading = undefined
        this.#lookedAt = clock.monotonic()
        if (refused) this.#refused = false
        if (next) this.#take(next)
        return this.#held
      })
    const loading = { refused, done }
    this.#loading = loading
    return done
  }

  #take(next: Credentials): void {
    if (sameCredentials(this.#held, next)) return
    // The same object for the same TLS material: the transport keeps its connections by identity.
    this.#held = sameTls(this.#held.tls, next.tls) ? { ...next, tls: this.#held.tls } : next
  }
}

function within<T>(ms: number, work: Promise<T>, clock: Clock): Promise<T> {
  return new Promise((resolve, reject) => {
    const stop = clock.after(ms, () => reject(new Error(`no credentials within ${ms} ms`)))
    work.then(resolve, reject).finally(stop)
  })
}
