/** Deliveries that Davit's own code has signed and sent over HTTP, as they arrived. */

import { sortableName } from '../../src/apis/ids.ts'
import { createClock } from '../../src/lib/time.ts'
import { acceptEvent } from '../../src/webhooks/events/plan.ts'
import { createWebhookSender } from '../../src/webhooks/sender/sender.ts'
import { formatSecret, KEY_BYTES } from '../../src/webhooks/sender/signature.ts'
import { EngineBed, ORGANIZATION } from '../support/engine-bed.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

/** A request as it came: what a proxy would hand on. */
export type SignedDelivery = {
  id: string
  timestamp: string
  /** Value of webhook-signature. */
  signatures: string
  body: Buffer
}

/** Text that any change of form would change: more digits than a double has, escapes, spaces, other alphabets. */
const DATA = '{"n": 9007199254740993, "f": 1.0, "s": "\\u0041\\/ Zoë 🚀", "a": []}'
export const EVENT_TYPE = 'environment.started'

/** A new secret of an endpoint. */
export function newSecret(): string {
  return formatSecret(crypto.getRandomValues(new Uint8Array(KEY_BYTES)))
}

/** Sends from a clock of its own; `close` it. */
export class Signer {
  readonly #receiver: Receiver
  readonly #sender = createWebhookSender({ networks: { allowed: ['127.0.0.0/8'] }, clock: createClock() })
  #endpoints = 0

  private constructor(receiver: Receiver) {
    this.#receiver = receiver
  }

  static async start(): Promise<Signer> {
    return new Signer(await startReceiver())
  }

  /**
   * One delivery of a new event.
   * @param secrets the active ones, newest first
   * @param aheadMs how far the sender's clock is ahead; negative: it was sent this long ago
   */
  async deliver(secrets: readonly string[], aheadMs = 0): Promise<SignedDelivery> {
    this.#endpoints += 1
    const name = `endpoint-${this.#endpoints}`
    const bed = new EngineBed()
    const sendAt = Date.now() + aheadMs
    bed.clock.setWallBy(sendAt - bed.clock.now())
    bed.sender.send = (request, signal) => this.#sender.send(request, signal)
    const endpoint = await bed.endpoint(name, { url: `${this.#receiver.url}/${name}` })
    const { uid } = endpoint.metadata
    const end = new Date(sendAt + 3_600_000).toISOString()
    const keys = secrets.map((secret, index) => ({
      secret,
      createdAt: new Date(sendAt - index).toISOString(),
      ...(index === 0 ? {} : { expiresAt: end }),
    }))
    bed.directory.applyKeys(ORGANIZATION, name, { endpointUid: uid, keys, version: '2' })
    bed.start()
    const event = {
      name: sortableName(sendAt, crypto.getRandomValues(new Uint8Array(10))),
      namespace: ORGANIZATION,
      type: EVENT_TYPE,
      dataText: DATA,
      happenedAt: sendAt,
    }
    await bed.accept(acceptEvent(event, [{ name, uid }]))
    const [request] = await this.#receiver.waitFor(1, { path: `/${name}` })
    bed.giveUp.abort()
    if (!request) throw new Error('nothing was sent')
    const { headers, body } = request
    return {
      id: String(headers['webhook-id']),
      timestamp: String(headers['webhook-timestamp']),
      signatures: String(headers['webhook-signature']),
      body,
    }
  }

  async close(): Promise<void> {
    await this.#sender.close()
    await this.#receiver.close()
  }
}
