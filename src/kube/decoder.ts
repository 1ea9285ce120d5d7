import type { Logger } from '../lib/ports-log.ts'
import type { RawObject } from './client.ts'
import type { ObjectIdentity } from './object-store.ts'

/** Objects that were complained about are remembered so far back. */
const REMEMBERED = 1_000

/** Decodes objects; one that cannot be decoded is counted, logged once, and holds up no other. */
export class Decoder<T> {
  readonly #decode: (raw: RawObject, bytes?: number) => T | undefined
  readonly #resource: string
  readonly #log: Logger
  readonly #complained = new Set<string>()
  /** How often an object could not be decoded. */
  poisoned = 0

  constructor(decode: (raw: RawObject, bytes?: number) => T | undefined, resource: string, log: Logger) {
    this.#decode = decode
    this.#resource = resource
    this.#log = log
  }

  /** @param bytes of the object as JSON, where that is known */
  decode(raw: RawObject, identity: ObjectIdentity, bytes?: number): T | undefined {
    try {
      const object = this.#decode(raw, bytes)
      if (object === undefined) this.#poison(identity, undefined)
      return object
    } catch (error) {
      this.#poison(identity, error)
      return undefined
    }
  }

  #poison({ key, uid }: ObjectIdentity, error: unknown): void {
    this.poisoned += 1
    const which = `${key} ${uid}`
    if (this.#complained.has(which)) return
    const [oldest] = this.#complained
    if (this.#complained.size >= REMEMBERED && oldest !== undefined) this.#complained.delete(oldest)
    this.#complained.add(which)
    this.#log.error('An object cannot be used and is skipped', {
      resource: this.#resource,
      object: key,
      uid,
      error,
    })
  }
}
