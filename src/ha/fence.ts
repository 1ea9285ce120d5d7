import { ApiError, type ResourceReader, type ResourceWriter, type WatchSource } from '../kube/client.ts'

type Api = ResourceReader & ResourceWriter & WatchSource

/**
 * The same API server, which is not written to while others may think that this replica is gone: a write then fails as
 * `Unavailable`, before it is sent.
 */
export function withFencing(api: Api, mayAct: () => boolean): Api {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayAct()) return await write()
    throw new ApiError(
      'Unavailable',
      'this replica could not renew its Lease, and writes nothing until it has',
    )
  }
  return {
    get: (type, ref) => api.get(type, ref),
    list: (type, query, from) => api.list(type, query, from),
    watch: (type, query, version, signal) => api.watch(type, query, version, signal),
    create: (type, object, how) => guard(() => api.create(type, object, how)),
    patch: (type, ref, patch, how) => guard(() => api.patch(type, ref, patch, how)),
    delete: (type, ref, precondition, how) => guard(() => api.delete(type, ref, precondition, how)),
  }
}
