import type { Random } from '../../lib/ports-clock.ts'

const LETTERS = 'abcdefghijklmnopqrstuvwxyz234567'

/**
 * An external id that is not the given one and yet like it: the same as far as its last dash, then as long. A role that accepts
 * whatever begins as Davit's ids do would let every other organization in, and is found by it.
 */
export function otherExternalId(externalId: string, random: Random): string {
  const kept = externalId.slice(0, externalId.lastIndexOf('-') + 1)
  const bytes = random.bytes(externalId.length - kept.length)
  const chosen = Array.from(bytes, (byte) => LETTERS[byte % LETTERS.length]).join('')
  const own = externalId.slice(kept.length)
  const letters = own === own.toUpperCase() ? chosen.toUpperCase() : chosen
  return letters === own ? `${kept}${letters}${LETTERS[0]}` : `${kept}${letters}`
}
