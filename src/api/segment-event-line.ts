/**
 * An accepted event as a line of a DeliverySegment: five words and the body, `-` for a word that is absent. A key
 * that came with a request has the request's fingerprint behind it: `key~fingerprint`.
 */
import type { SegmentEvent } from './delivery-segment.ts'

const ABSENT = '-'
const FINGERPRINT = '~'

export function encodeEvent(event: SegmentEvent): string {
  const { id, namespace, type, key = ABSENT, fingerprint, redeliveryOf = ABSENT, payload } = event
  const mark = fingerprint === undefined ? key : key + FINGERPRINT + fingerprint
  return `${id} ${namespace} ${type} ${mark} ${redeliveryOf} ${payload}`
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
  const [id = '', namespace = '', type = '', mark = ABSENT, redeliveryOf = ABSENT] = words
  const event: SegmentEvent = { id, namespace, type, payload: line.slice(at) }
  if (mark !== ABSENT) {
    const [key = ABSENT, fingerprint] = mark.split(FINGERPRINT, 2)
    if (key !== ABSENT) event.key = key
    if (fingerprint !== undefined) event.fingerprint = fingerprint
  }
  if (redeliveryOf !== ABSENT) event.redeliveryOf = redeliveryOf
  return event
}
