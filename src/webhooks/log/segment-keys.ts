/** What a segment says of Idempotency-Keys. */
import type { DeliverySegmentSpec } from '../../apis/delivery-segment.ts'
import { decodeEventLine } from '../../apis/segment-event-line.ts'
import { type KeyRecord, keyRecordOf } from './dedupe.ts'

/** In the order of the log. @param version of the segment */
export function keyRecordsOf(
  spec: Pick<DeliverySegmentSpec, 'events' | 'deliveries'>,
  version: number,
): KeyRecord[] {
  let targets: Targets | undefined
  return spec.events.flatMap((line, index) => {
    const event = decodeEventLine(line)
    if (event?.fingerprint === undefined) return []
    targets ??= targetsOf(spec.deliveries)
    const { count = 0, first = 0 } = targets.get(index) ?? {}
    return keyRecordOf(event, { position: { version, index }, deliveries: count, firstDelivery: first }) ?? []
  })
}

/** By index of the event. */
type Targets = Map<number, { count: number; first: number }>

function targetsOf(deliveries: string): Targets {
  const targets: Targets = new Map()
  const lines = deliveries === '' ? [] : deliveries.split('\n')
  lines.forEach((line, index) => {
    const event = Number.parseInt(line, 10)
    const known = targets.get(event)
    if (known) known.count += 1
    else targets.set(event, { count: 1, first: index })
  })
  return targets
}
