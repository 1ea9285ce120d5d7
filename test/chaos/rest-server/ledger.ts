/** What the clients of a run were promised, and which errors they met. */

export type Operation = 'publish' | 'ping' | 'redeliver' | 'create' | 'roll'

/** A request that was answered with 2xx; one entry however often it was sent. */
export type Accepted = {
  operation: Operation
  /** The sending client. Its requests are sequential, and its entries are in order. */
  client: number
  /** Idempotency-Key; absent if the request was sent only once. */
  key?: string
  /** Publish and redeliver: number of the event. */
  event?: number
  /** Publish: its type. */
  type?: string
  /** Ping and redeliver: name of the receiver; rotation: id of the endpoint. */
  endpoint?: string
  /** Id of the created event, delivery or endpoint; for a rotation that of the endpoint. */
  id: string
  /** Create and rotation: the signing secret, if the answer contained it. */
  secret?: string
}

const MOST_WORDS = 20

export class Ledger {
  readonly accepted: Accepted[] = []
  /** Numbers of events that were sent once and not answered: they may exist or not. */
  readonly unknown = new Set<number>()
  /** Descriptions of invalid answers. */
  readonly wrong: string[] = []
  /** Requests that were retried with their key, and repeats of answered ones. */
  retried = 0
  repeated = 0
  /** Deliveries that were read right after the answer that named them. */
  read = 0
  /** By status, or `lost` for a broken connection. */
  readonly failures = new Map<string, number>()

  failed(why: string): void {
    this.failures.set(why, (this.failures.get(why) ?? 0) + 1)
  }

  complain(words: string): void {
    if (this.wrong.length < MOST_WORDS) this.wrong.push(words)
  }
}
