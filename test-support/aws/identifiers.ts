import { randomBytes } from 'node:crypto'

const LETTERS = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567'

/** Creates an id in the format of IAM; a prefix such as `AKIA` gives the type. */
export function uniqueId(prefix: string): string {
  return prefix + [...randomBytes(16)].map((byte) => LETTERS[byte % LETTERS.length]).join('')
}

/** Creates a secret access key of 40 characters. */
export function secretKey(): string {
  return randomBytes(30).toString('base64')
}
