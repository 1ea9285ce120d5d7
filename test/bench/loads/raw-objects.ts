/** One create and one status write for each delivery, with the bodies that Davit sends. */

import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { webhookDeliveries } from '../../../src/apis/webhook-delivery.ts'
import type { RawObject, ResourceWriter } from '../../../src/kube/client.ts'
import type { Clock, Random } from '../../../src/lib/time.ts'
import { microseconds } from '../measure/instant.ts'
import type { RawResult } from '../processes/raw.ts'
import { closedLoop } from './pace.ts'

export type RawObjectsLoad = {
  kubeconfigPath: string
  namespace: string
  /** A delivery that Davit made, to be made again and again. */
  sample: RawObject
  publishers: number
  seconds: number
}

export async function rawObjects(
  load: RawObjectsLoad,
  world: { api: ResourceWriter; clock: Clock; random: Random },
): Promise<RawResult> {
  const { api, clock, random } = world
  const { namespace, sample } = load
  const { apiVersion = '', kind = '', spec, status } = sample
  const { labels, ownerReferences } = sample.metadata
  let deliveries = 0
  const startedAt = microseconds()
  await closedLoop(load, async () => {
    const ref = { namespace, name: `${sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))}-00000000` }
    const object = { apiVersion, kind, metadata: { ...ref, labels, ownerReferences }, spec }
    const { metadata } = await api.create(webhookDeliveries, object)
    const patch = { metadata: { resourceVersion: metadata.resourceVersion }, status }
    await api.patch(webhookDeliveries, ref, patch, { subresource: 'status' })
    deliveries += 1
  })
  return { deliveries, startedAt, endedAt: microseconds() }
}
