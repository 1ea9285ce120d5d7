import type { DeliveryTarget } from '../../apis/delivery-segment.ts'

const TARGET = /^([a-z0-9-]{1,63}) ([A-Za-z0-9-]{1,64})$/

/**
 * Each replica reads who gets each delivery of all, and they are the same endpoints again and again: one text for a UID, whose
 * hash is known, saves it more than to take the line apart costs.
 */
const known = new Map<string, DeliveryTarget>()
/** More endpoints than that are begun anew with; a few megabytes. */
const MAX_KNOWN = 20_000

/** Name and UID of an endpoint, as a line of a segment has them. Undefined when no object can have such names. */
export function readTarget(text: string): Readonly<DeliveryTarget> | undefined {
  const held = known.get(text)
  if (held) return held
  if (!TARGET.test(text)) return undefined
  // What is cut out of a text keeps all of that in memory.
  const own = Buffer.from(text, 'latin1').toString('latin1')
  const [name = '', uid = ''] = own.split(' ')
  if (known.size === MAX_KNOWN) known.clear()
  const target = { name, uid }
  known.set(own, target)
  return target
}
