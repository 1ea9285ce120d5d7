import { randomBytes } from 'node:crypto'

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** An id as IAM makes them: `AKIA` and the like says of what. */
export function uniqueId(prefix: string): string {
  return prefix + [...randomBytes(16)].map((byte) => LETTERS[byte % LETTERS.length]).join('')
}

/** A secret access key: 40 characters. */
export function secretKey(): string {
  return randomBytes(30).toString('base64')
}
