/** The one place that writes the status of endpoints: one writer at a time for each, and what was written is known at once. */
import { type WebhookEndpoint, webhookEndpoint, webhookEndpoints } from '../../api/webhook-endpoint.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../ports/kubernetes.ts'
import { KeyedMutex } from '../../runtime/keyed-mutex.ts'
import type { EndpointDirectory, EndpointView } from './endpoint-directory.ts'

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
   * @throws ApiError what may pass by itself
   */
  async write(endpoint: WebhookEndpoint, status: object): Promise<void> {
    const { namespace, name, uid } = endpoint.metadata
    try {
      // The UID in the patch turns a write to one recreated under the same name into a conflict.
      const patch = { metadata: { uid }, status }
      const written = await this.#resources.patch(webhookEndpoints, { namespace, name }, patch, {
        subresource: 'status',
      })
      this.#directory.apply(webhookEndpoint.parse(written))
    } catch (error) {
      if (!isApiError(error, 'NotFound', 'Conflict', 'Invalid')) throw error
    }
  }

  /** Reads an endpoint that the watch may not have shown yet. @returns undefined when there is none */
  async read(namespace: string, name: string): Promise<WebhookEndpoint | undefined> {
    try {
      const endpoint = webhookEndpoint.parse(await this.#resources.get(webhookEndpoints, { namespace, name }))
      this.#directory.apply(endpoint)
      return endpoint
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }
}
