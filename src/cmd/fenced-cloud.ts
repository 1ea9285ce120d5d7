import { CloudError } from '../credentials/cloud-error.ts'
import type { ControllerDependencies } from './world-types.ts'

type Cloud = ControllerDependencies['cloud']

/** The same accounts, of which no parameter is written or removed while another replica may do that: it fails before it is sent. */
export function withCloudFencing(cloud: Cloud, mayWrite: () => boolean): Cloud {
  const guard = async <T>(write: () => Promise<T>): Promise<T> => {
    if (mayWrite()) return await write()
    throw new CloudError('retry', 'Canceled', 'another replica may have taken over what this was for')
  }
  return {
    create: (access, parameter, limits) => guard(() => cloud.create(access, parameter, limits)),
    replace: (access, name, value, limits) => guard(() => cloud.replace(access, name, value, limits)),
    remove: (access, name, limits) => guard(() => cloud.remove(access, name, limits)),
    list: (access, filter, limits) => cloud.list(access, filter, limits),
    tagsOf: (access, name, limits) => cloud.tagsOf(access, name, limits),
    self: (region, limits) => cloud.self(region, limits),
    identify: (access, limits) => cloud.identify(access, limits),
    readable: (access, name, limits) => cloud.readable(access, name, limits),
    refusesOtherId: (access, limits) => cloud.refusesOtherId(access, limits),
  }
}
