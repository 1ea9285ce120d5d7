/** Endpoints over REST: live reads and writes of the resources that kubectl and Git see as well. */
import { ENDPOINT_PREFIX } from '../../../api/identifiers.ts'
import { webhookEndpoint, webhookEndpoints } from '../../../api/webhook-endpoint.ts'
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
} from '../../../ports/endpoints.ts'
import type { RawObject } from '../../../ports/kubernetes.ts'
import { refusing } from '../refusals.ts'
import { Acknowledgements } from './acknowledgements.ts'
import { changeEndpoint, removeEndpoint } from './change-endpoint.ts'
import type { EndpointsContext, EndpointsOptions } from './context.ts'
import { EndpointCreation } from './create-endpoint.ts'
import { resourceOf, taggedOf } from './endpoint-resource.ts'
import { readEndpoint } from './live-endpoint.ts'
import { rollSecret } from './roll-secret.ts'

export class FacadeEndpoints implements Endpoints {
  readonly #ctx: EndpointsContext
  readonly #creation: EndpointCreation

  constructor(options: EndpointsOptions) {
    this.#ctx = { ...options, acknowledgements: new Acknowledgements(options.directory, options.clock) }
    this.#creation = new EndpointCreation(this.#ctx)
  }

  create(organization: string, draft: EndpointDraft, { idempotencyKey }: Keyed): Promise<CreatedEndpoint> {
    return refusing(() => this.#creation.create(organization, draft, idempotencyKey))
  }

  /** An organization has few enough to be read through: a cursor never expires, and shows what is there by then. */
  list(
    organization: string,
    { limit, after }: { limit: number; after?: string | undefined },
  ): Promise<{ endpoints: EndpointResource[]; next?: string }> {
    return refusing(async () => {
      const endpoints: EndpointResource[] = []
      for await (const raw of this.#stored(organization)) {
        if (after !== undefined && ENDPOINT_PREFIX + raw.metadata.name <= after) continue
        const { data } = webhookEndpoint.safeParse(raw)
        if (!data || data.metadata.deletionTimestamp !== undefined) continue
        if (endpoints.length === limit) return pageOf(endpoints)
        endpoints.push(resourceOf(data))
      }
      return { endpoints }
    })
  }

  get(id: EndpointId): Promise<TaggedEndpoint> {
    return refusing(async () => taggedOf(await readEndpoint(this.#ctx, id)))
  }

  change(id: EndpointId, change: EndpointChange, how: Conditional): Promise<TaggedEndpoint> {
    return refusing(() => changeEndpoint(this.#ctx, id, change, how))
  }

  remove(id: EndpointId, how: Conditional): Promise<void> {
    return refusing(() => removeEndpoint(this.#ctx, id, how))
  }

  roll(id: EndpointId, roll: { expireOld: boolean }, { idempotencyKey }: Keyed): Promise<RolledSecret> {
    return refusing(() => rollSecret(this.#ctx, id, roll, idempotencyKey))
  }

  /** By name. */
  async *#stored(namespace: string): AsyncGenerator<RawObject> {
    let from: string | undefined
    do {
      const page = await this.#ctx.resources.list(webhookEndpoints, { namespace }, from)
      yield* page.items
      from = page.continue
    } while (from !== undefined)
  }
}

/** There are more behind it. */
function pageOf(endpoints: EndpointResource[]): { endpoints: EndpointResource[]; next?: string } {
  const last = endpoints.at(-1)
  return last ? { endpoints, next: last.endpointId } : { endpoints }
}
