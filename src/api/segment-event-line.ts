/** An accepted event as a line of a DeliverySegment: five words and the body, `-` for a word that is absent. */
import type { SegmentEvent } from './delivery-segment.ts'

const ABSENT = '-'

export function encodeEvent(event: SegmentEvent): string {
  const { id, namespace, type, key = ABSENT, redeliveryOf = ABSENT, payload } = event
  return `${id} ${namespace} ${type} ${key} ${redeliveryOf} ${payload}`
}

/** Undefined when `line` is no such line. */
export function decodeEvent(line: string): SegmentEvent | undefined {
  const words: string[] = []
  let at = 0
  while (words.length < 5) {
    const end = line.indexOf(' ', at)
    if (end <= at) return undefined
    words.push(line.slice(at, end))
    at = end + 1
  }
  const [id = '', namespace = '', type = '', key = ABSENT, redeliveryOf = ABSENT] = words
  return {
    id,
    namespace,
    type,
    payload: line.slice(at),
    ...(key === ABSENT ? {} : { key }),
    ...(redeliveryOf === ABSENT ? {} : { redeliveryOf }),
  }
}
