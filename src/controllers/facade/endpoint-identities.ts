import type { EndpointIdentities } from '../../ports/facade.ts'
import type { ResourceReader } from '../../ports/kubernetes.ts'
import { RefusedError } from '../../ports/refused-error.ts'
import { readRaw } from './endpoints/live-endpoint.ts'
import { withRefusals } from './refusals.ts'

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
