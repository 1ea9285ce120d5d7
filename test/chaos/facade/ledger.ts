/** What the clients of a run were promised, and what they met. */

export type Operation = 'publish' | 'ping' | 'redeliver' | 'create' | 'roll'

/** A request that was answered with 2xx; one entry however often it was sent. */
export type Accepted = {
  operation: Operation
  /** Who asked. A client's requests follow each other, and its entries stand in their order. */
  client: number
  /** Idempotency-Key; absent where it was sent once. */
  key?: string
  /** Publish and redeliver: number of the event. */
  event?: number
  /** Publish: its type. */
  type?: string
  /** Ping and redeliver: name of the receiver; roll: id of the endpoint. */
  endpoint?: string
  /** What was made: of an event, delivery or endpoint; of a roll the endpoint's. */
  id: string
  /** Create and roll: the signing secret, where the answer that came has it. */
  secret?: string
}

const MOST_WORDS = 20

export class Ledger {
  readonly accepted: Accepted[] = []
  /** Numbers of events that were sent once and not answered: they may be there or not. */
  readonly unknown = new Set<number>()
  /** Answers that must not be, in words. */
  readonly wrong: string[] = []
  /** Requests that were sent again with their key, and repeats of what had been answered. */
  retried = 0
  repeated = 0
  /** Deliveries that were read right after the answer that named them. */
  read = 0
  /** By status, or `lost` for a connection that broke. */
  readonly failures = new Map<string, number>()

  failed(why: string): void {
    this.failures.set(why, (this.failures.get(why) ?? 0) + 1)
  }

  complain(words: string): void {
    if (this.wrong.length < MOST_WORDS) this.wrong.push(words)
  }
}
