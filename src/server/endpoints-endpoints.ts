/** Endpoints over REST: the resources that kubectl and Git see as well. */
import { ENDPOINT_PREFIX } from '../apis/identifiers.ts'
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { EndpointAcknowledgements } from './acknowledgements.ts'
import { changeEndpoint, removeEndpoint } from './change-endpoint.ts'
import type { EndpointsContext, EndpointsOptions } from './endpoint-acknowledgements.ts'
import type {
  Conditional,
  CreatedEndpoint,
  EndpointChange,
  EndpointDraft,
  EndpointId,
  EndpointResource,
  Endpoints,
  Keyed,
  RolledSecret,
  TaggedEndpoint,
} from './endpoint-resource.ts'
import { EndpointCreation } from './endpoints.ts'
import { resourceOf, taggedOf } from './endpoints-endpoint-resource.ts'
import { withRefusals } from './http/refusals.ts'
import { refuseWhileStale } from './http/refuse-behind.ts'
import { readEndpoint } from './live-endpoint.ts'
import { rollSecret } from './roll-secret.ts'
import { UndisclosedSecrets } from './unseen-secrets.ts'

export class EndpointService implements Endpoints {
  readonly #ctx: EndpointsContext
  readonly #creation: EndpointCreation

  constructor(options: EndpointsOptions) {
    const { directory, clock } = options
    const acknowledgements = new EndpointAcknowledgements(directory, clock)
    this.#ctx = { ...options, acknowledgements, unseen: new UndisclosedSecrets() }
    this.#creation = new EndpointCreation(this.#ctx)
  }

  create(organization: string, draft: EndpointDraft, { idempotencyKey }: Keyed): Promise<CreatedEndpoint> {
    return withRefusals(() => this.#creation.create(organization, draft, idempotencyKey))
  }

  /**
   * From what the watch has shown, which is within milliseconds what there is; own writes are in it at once. A cursor never
   * expires, and shows what is there by then.
   */
  list(
    organization: string,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ endpoints: EndpointResource[]; next?: string }> {
    return withRefusals(async () => {
      const { directory, behind } = this.#ctx
      refuseWhileStale('Which endpoints there are', behind)
      const found = directory
        .inNamespace(organization)
        .filter(({ endpoint: { metadata } }) => isNext(metadata, after))
        .sort((a, b) => (a.endpoint.metadata.name < b.endpoint.metadata.name ? -1 : 1))
      const endpoints = found.slice(0, limit).map(({ endpoint }) => resourceOf(endpoint))
      const last = endpoints.at(-1)
      return found.length > limit && last ? { endpoints, next: last.endpointId } : { endpoints }
    })
  }

  get(id: EndpointId): Promise<TaggedEndpoint> {
    return withRefusals(async () => taggedOf(await readEndpoint(this.#ctx, id)))
  }

  change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<TaggedEndpoint> {
    return withRefusals(() => changeEndpoint(this.#ctx, id, change, how))
  }

  remove(id: EndpointId, how: Conditional): Promise<void> {
    return withRefusals(() => removeEndpoint(this.#ctx, id, how))
  }

  roll(id: EndpointId, roll: { expireOld: boolean }, { idempotencyKey }: Keyed): Promise<RolledSecret> {
    return withRefusals(() => rollSecret(this.#ctx, id, roll, idempotencyKey))
  }
}

/** Not one that is being deleted. @param after the last id that the reader has */
function isNext(
  { name, deletionTimestamp }: WebhookEndpoint['metadata'],
  after: string | undefined,
): boolean {
  return deletionTimestamp === undefined && (after === undefined || ENDPOINT_PREFIX + name > after)
}
