import { randomBytes } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { parseRegistrySecret } from '../../../src/credentials/registry-secret.ts'
import { SeededRandom } from '../../chaos/seeded-random.ts'
import { hurtingSecrets, refusedSecrets } from '../hurting-secrets.ts'
import { ENCODINGS, formsOf } from './forms.ts'
import { Scanner } from './scanner.ts'

const SECRETS = hurtingSecrets(new SeededRandom(7), 190)
const scanner = new Scanner(SECRETS)

/** Something that looks like what is scanned. */
function noise(bytes: number): Buffer {
  const text = JSON.stringify({
    level: 'info',
    msg: 'Reconciled',
    labels: { app: 'davit' },
    url: 'https://u:',
  })
  return Buffer.concat([Buffer.from(text.repeat(Math.ceil(bytes / 2 / text.length))), randomBytes(bytes / 2)])
}

function foundIn(bytes: Buffer): number[] {
  return [...new Set(scanner.scan(bytes).map(({ secret }) => secret))]
}

describe('a scan', () => {
  test.each(Object.keys(ENCODINGS))('finds every secret written as %s', (encoding) => {
    for (const [index, secret] of SECRETS.entries()) {
      const text = ENCODINGS[encoding]?.(secret) ?? ''
      const bytes = Buffer.concat([noise(400), Buffer.from(text), noise(400)])
      expect(foundIn(bytes), `${encoding} of ${secret}`).toEqual([index])
    }
  })

  test('finds base64 of a text that has the secret somewhere in it', () => {
    for (const [index, secret] of SECRETS.entries())
      for (const before of ['', 'a', 'ab', 'abc'])
        for (const alphabet of ['base64', 'base64url'] as const) {
          const text = Buffer.from(`${before}${secret}xyz`).toString(alphabet)
          expect(foundIn(Buffer.from(`{"data":"${text}"}`)), secret).toEqual([index])
        }
  })

  test('finds any piece of 20 bytes', () => {
    const secret = SECRETS[0] ?? ''
    for (let at = 0; at + 20 <= secret.length; at += 1)
      expect(foundIn(Buffer.from(`...${secret.slice(at, at + 20)}...`))).toEqual([0])
  })

  test('finds all of several, at the edges too', () => {
    const bytes = Buffer.from(`${SECRETS[3]}${SECRETS[4]} and ${SECRETS[5]}`)
    expect(foundIn(bytes)).toEqual([3, 4, 5])
  })

  test('says which form, and where', () => {
    const text = ENCODINGS.hex?.(SECRETS[2] ?? '') ?? ''
    const [hit] = scanner.scan(Buffer.from(`0123 ${text}`))
    expect(hit).toEqual({ secret: 2, form: 'hex', at: 5, length: text.length })
  })

  test('finds nothing where nothing is, and not how secrets are written', () => {
    const others = hurtingSecrets(new SeededRandom(8), 190)
    expect(scanner.scan(noise(4_000_000))).toEqual([])
    expect(others.filter((other) => formsOf(other).some(({ bytes }) => foundIn(bytes).length > 0))).toEqual(
      [],
    )
  })

  test('refuses a secret that would be found by chance', () => {
    expect(() => new Scanner(['short'])).toThrow(RangeError)
  })

  test('takes seconds of a core for hundreds of megabytes', () => {
    const many = new Scanner(hurtingSecrets(new SeededRandom(9), 1000))
    const bytes = noise(64 * 1024 * 1024)
    const begin = process.cpuUsage()
    many.scan(bytes)
    expect(process.cpuUsage(begin).user / 1e6).toBeLessThan(10)
  })
})

describe('secrets that hurt', () => {
  test('are such as are stored, up to the longest', () => {
    expect(SECRETS.filter((secret) => parseRegistrySecret(secret).problem !== undefined)).toEqual([])
    expect(Math.max(...SECRETS.map((secret) => Buffer.byteLength(secret)))).toBe(4096)
    expect(new Set(SECRETS).size).toBe(SECRETS.length)
  })

  test('or are such as are refused', () => {
    const refused = refusedSecrets(new SeededRandom(7), 60)
    expect(refused.filter((secret) => parseRegistrySecret(secret).problem === undefined)).toEqual([])
  })
})
