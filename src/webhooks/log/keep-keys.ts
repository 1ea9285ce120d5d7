/** Idempotency-Keys stand for 24 hours, whatever becomes of the segment that they came in. */
import { deliverySegment, deliverySegments } from '../../apis/delivery-segment.ts'
import type { ResourceReader } from '../../kube/client.ts'
import { findObject } from '../../kube/find-object.ts'
import { isKeyAlive, keptLine } from './dedupe.ts'
import { keyRecordsOf } from './segment-keys.ts'
import type { EventLog } from './store.ts'

export type PreserveKeysOptions = {
  resources: ResourceReader
  /** The operator's namespace. */
  namespace: string
  eventLog: EventLog
}

/**
 * Appends what the segment says of keys that still stand, in short lines without the bodies. It may be deleted then.
 * @param now milliseconds since 1970 @throws ApiError, OverloadedError what may pass by itself
 */
export async function preserveKeys(options: PreserveKeysOptions, name: string, now: number): Promise<void> {
  const raw = await findObject(options.resources, deliverySegments, { namespace: options.namespace, name })
  // What cannot be read said nothing to anybody.
  const { data } = deliverySegment.safeParse(raw)
  if (!data) return
  const records = keyRecordsOf(data.spec, Number(data.metadata.resourceVersion))
  const kept = records.filter((record) => isKeyAlive(record, now)).map(keptLine)
  // An append is of one organization; those that come together share a segment.
  const appends = [...Map.groupBy(kept, ({ event }) => event.namespace).values()]
  await Promise.all(appends.map((events) => options.eventLog.append(events)))
}
