import { ENDPOINT_PREFIX } from '../../api/identifiers.ts'
import { DNS_LABEL } from '../../api/meta.ts'
import { webhookEndpoints } from '../../api/webhook-endpoint.ts'
import type { EndpointIdentities } from '../../ports/facade.ts'
import { isApiError, type ResourceReader } from '../../ports/kubernetes.ts'
import { RefusedError } from '../../ports/refused-error.ts'
import { refusing } from './refusals.ts'

/** Asks the API server, so that an endpoint which another replica has just made or deleted is as it is. */
export function createEndpointIdentities(reader: Pick<ResourceReader, 'get'>): EndpointIdentities {
  return {
    identify: ({ organization, endpointId }) =>
      refusing(async () => {
        const name = endpointId.slice(ENDPOINT_PREFIX.length)
        if (!endpointId.startsWith(ENDPOINT_PREFIX) || !DNS_LABEL.test(name))
          throw new RefusedError('not_found')
        const { metadata } = await get(reader, { namespace: organization, name })
        // From the moment that its deletion was asked for it is gone, whatever a finalizer still does.
        if (metadata.deletionTimestamp !== undefined || !metadata.uid) throw new RefusedError('not_found')
        return { namespace: organization, name, uid: metadata.uid }
      }),
  }
}

async function get(reader: Pick<ResourceReader, 'get'>, ref: { namespace: string; name: string }) {
  try {
    return await reader.get(webhookEndpoints, ref)
  } catch (error) {
    throw isApiError(error, 'NotFound') ? new RefusedError('not_found', { cause: error }) : error
  }
}
