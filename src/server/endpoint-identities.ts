import type { ResourceReader } from '../kube/client.ts'
import type { EndpointIdentities } from './http/facade.ts'
import { withRefusals } from './http/refusals.ts'
import { RefusedError } from './http/refused-error.ts'
import { readRaw } from './live-endpoint.ts'

/** Asks the API server, so that an endpoint which another replica has just made or deleted is as it is. */
export function createEndpointIdentities(reader: Pick<ResourceReader, 'get'>): EndpointIdentities {
  return {
    identify: (id) =>
      withRefusals(async () => {
        const { name, uid, deletionTimestamp } = (await readRaw(reader, id)).metadata
        // From the moment that its deletion was asked for it is gone, whatever a finalizer still does.
        if (deletionTimestamp !== undefined || !uid) throw new RefusedError('not_found')
        return { namespace: id.organization, name, uid }
      }),
  }
}
