import { createHash } from 'node:crypto'
import { encodeBase32 } from '../../lib/text.ts'

const HASH_CHARACTERS = 8
/** A label has no more, and the Job's name becomes one of its pods. */
const MAX_NAME = 63

/** The same for the same bake, and for no other. @param number of the bakes of the template, this one included */
export function bakeName(of: {
  template: string
  uid: string
  generation: number
  rebake: string | undefined
  number: number
}): string {
  const { template, uid, generation, rebake = '', number } = of
  const hash = createHash('sha256')
    .update(JSON.stringify([uid, generation, rebake, number]))
    .digest()
  const start = template.slice(0, MAX_NAME - HASH_CHARACTERS - 1).replace(/-+$/, '')
  return `${start}-${encodeBase32(hash, HASH_CHARACTERS)}`
}
