/**
 * An accepted event as a line of a DeliverySegment: five words and the body, `-` for a word that is absent. A key
 * that came with a request has the request's fingerprint behind it: `key~fingerprint`.
 */
import type { SegmentEvent } from './delivery-segment.ts'

const ABSENT = '-'
const FINGERPRINT = '~'
/** No key, and no delivery that is repeated, as nearly all lines have it. */
const NEITHER = ` ${ABSENT} ${ABSENT} `

export function encodeEventLine(event: SegmentEvent): string {
  const { id, namespace, type, key = ABSENT, fingerprint, redeliveryOf = ABSENT, payload } = event
  const mark = fingerprint === undefined ? key : key + FINGERPRINT + fingerprint
  return `${id} ${namespace} ${type} ${mark} ${redeliveryOf} ${payload}`
}

/** Undefined when `line` is no such line. */
export function decodeEventLine(line: string): SegmentEvent | undefined {
  // Each replica reads the events of all: no list of words, and none is cut out that says nothing.
  const id = line.indexOf(' ')
  const namespace = line.indexOf(' ', id + 1)
  const type = line.indexOf(' ', namespace + 1)
  const mark = line.indexOf(' ', type + 1)
  const end = line.indexOf(' ', mark + 1)
  const isWhole = id > 0 && namespace > id + 1 && type > namespace + 1 && mark > type + 1 && end > mark + 1
  if (!isWhole) return undefined
  const event: SegmentEvent = {
    id: line.slice(0, id),
    namespace: line.slice(id + 1, namespace),
    type: line.slice(namespace + 1, type),
    payload: line.slice(end + 1),
  }
  if (line.startsWith(NEITHER, type)) return event
  const [key = ABSENT, fingerprint] = line.slice(type + 1, mark).split(FINGERPRINT, 2)
  if (key !== ABSENT) event.key = key
  if (fingerprint !== undefined) event.fingerprint = fingerprint
  const redeliveryOf = line.slice(mark + 1, end)
  if (redeliveryOf !== ABSENT) event.redeliveryOf = redeliveryOf
  return event
}
