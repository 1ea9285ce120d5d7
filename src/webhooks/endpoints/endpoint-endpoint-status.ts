/** The one place that writes the status of endpoints: one writer at a time for each, and what was written is known at once. */
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { KeyedMutex } from '../../lib/keyed-mutex.ts'
import type { EndpointDirectory, EndpointView } from './directory.ts'

/** Owners change an endpoint now and then, not all the time. */
const MAX_ATTEMPTS = 5

export class EndpointStatusWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #directory: EndpointDirectory
  readonly #mutex = new KeyedMutex()

  constructor(resources: ResourceReader & ResourceWriter, directory: EndpointDirectory) {
    this.#resources = resources
    this.#directory = directory
  }

  /** Runs `act` while nobody else writes this endpoint's status; `act` gets the newest view, if there is one. */
  exclusively<T>(
    of: { namespace: string; name: string; uid: string },
    act: (view: EndpointView | undefined) => Promise<T>,
  ): Promise<T> {
    return this.#mutex.run(of.uid, () => act(this.#directory.find(of)))
  }

  /**
   * Writes a merge patch of the status; call it within `exclusively`. An endpoint that is gone is no error.
   * @param decide the patch for the endpoint as it is; asked anew when somebody else has written. Undefined: nothing is to be written
   * @throws ApiError what may pass by itself
   */
  async write(seen: EndpointView, decide: (view: EndpointView) => object | undefined): Promise<void> {
    const { namespace = '', name, uid } = seen.endpoint.metadata
    let view: EndpointView | undefined = seen
    for (let attempt = 1; view; attempt += 1) {
      const status = decide(view)
      if (!status) return
      try {
        return await this.#patch(view.endpoint, status)
      } catch (error) {
        if (isApiError(error, 'NotFound', 'Invalid')) return
        if (!isApiError(error, 'Conflict') || attempt === MAX_ATTEMPTS) throw error
      }
      await this.read(namespace, name)
      view = this.#directory.find({ namespace, name, uid })
    }
  }

  /** The API server overlooks a UID in a patch of a status: only the version keeps it from one made anew. */
  async #patch({ metadata }: WebhookEndpoint, status: object): Promise<void> {
    const { namespace, name, resourceVersion } = metadata
    const patch = { metadata: { resourceVersion }, status }
    const how = { subresource: 'status' } as const
    const written = await this.#resources.patch(webhookEndpoints, { namespace, name }, patch, how)
    this.#directory.applyRead(webhookEndpoint.parse(written))
  }

  /** Reads an endpoint that the watch may not have shown yet. @returns undefined when there is none */
  async read(namespace: string, name: string): Promise<WebhookEndpoint | undefined> {
    try {
      const endpoint = webhookEndpoint.parse(await this.#resources.get(webhookEndpoints, { namespace, name }))
      this.#directory.applyRead(endpoint)
      return endpoint
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }
}
