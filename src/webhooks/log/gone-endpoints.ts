/**
 * Finished deliveries of an endpoint that does not exist any more go with it. Owner references say so as well, but
 * not every cluster runs the garbage collector. The watch may be behind, so the endpoint is looked up first.
 */
import { webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { isApiError, type ResourceReader } from '../../kube/client.ts'
import type { EndpointOf } from './finished-deliveries.ts'

/** Look-ups in one round. */
const AT_A_TIME = 16

export class GoneEndpoints {
  readonly #resources: ResourceReader
  readonly #doubtful = new Map<string, EndpointOf>()

  constructor(resources: ResourceReader) {
    this.#resources = resources
  }

  /** The endpoint may be gone. */
  suspect(endpoint: EndpointOf): void {
    this.#doubtful.set(endpoint.uid, endpoint)
  }

  /** Looks up some of those in doubt. @returns the UIDs of those that are gone */
  async check(): Promise<string[]> {
    const some = [...this.#doubtful.values()].slice(0, AT_A_TIME)
    const gone = await Promise.all(
      some.map(async (endpoint) => ((await this.#isGone(endpoint)) ? [endpoint.uid] : [])),
    )
    return gone.flat()
  }

  async #isGone(endpoint: EndpointOf): Promise<boolean> {
    const { namespace, name, uid } = endpoint
    this.#doubtful.delete(uid)
    try {
      const found = await this.#resources.get(webhookEndpoints, { namespace, name })
      return found.metadata.uid !== uid
    } catch (error) {
      if (isApiError(error, 'NotFound')) return true
      // Behind the others, and not at once.
      this.#doubtful.set(uid, endpoint)
      return false
    }
  }
}
