/** Publishes events to REST servers as a platform does: one at a time or in batches. */
import { bodyOf, HttpClient } from './http-client.ts'
import type { Enter } from './publishing.ts'

/** A REST server. */
export type PublishTarget = {
  baseUrl: string
  /** PEM of the authority that issued its certificate. */
  ca?: string
}

type Result = { status: 'accepted'; deliveries: number } | { status: 'rejected' }

export class RestPublisher {
  /** API tokens, by organization. */
  readonly #keys = new Map<string, string>()
  #clients: HttpClient[] = []
  #requests = 0

  /** Uses these REST servers in turn from now on. @param connections to all of them together */
  async connect(
    servers: readonly PublishTarget[],
    keys: Readonly<Record<string, string>>,
    connections: number,
  ): Promise<void> {
    await this.close()
    const each = Math.ceil(connections / servers.length)
    this.#clients = servers.map(({ baseUrl, ca }) => new HttpClient(baseUrl, each, ca))
    for (const [organization, key] of Object.entries(keys)) this.#keys.set(organization, key)
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.splice(0).map((client) => client.close()))
  }

  /** Several events are a batch. @throws Error unless the REST server accepts all of them */
  readonly enter: Enter = async ({ namespace, type }, dataTexts) => {
    const events = dataTexts.map((dataText) => `{"type":"${type}","data":${dataText}}`)
    const [only = '', ...others] = events
    if (others.length === 0) {
      const { deliveries } = (await this.#post(namespace, 'events', only)) as { deliveries: number }
      return deliveries
    }
    const body = `{"events":[${events.join(',')}]}`
    const { results } = (await this.#post(namespace, 'events/batch', body)) as { results: Result[] }
    return results.reduce((sum, result) => {
      if (result.status !== 'accepted') throw new Error('an event of a batch was rejected')
      return sum + result.deliveries
    }, 0)
  }

  async #post(organization: string, resource: string, body: string): Promise<unknown> {
    const key = this.#keys.get(organization)
    const client = this.#clients[this.#requests % this.#clients.length]
    this.#requests += 1
    if (!client || key === undefined) throw new Error(`there is no key of ${organization}`)
    const path = `/organizations/${organization}/${resource}`
    return bodyOf(await client.send({ method: 'POST', path, key, body }), 202)
  }
}
