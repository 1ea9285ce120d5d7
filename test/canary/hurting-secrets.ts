/**
 * Secrets in difficult shapes, which get lost, cut or revealed where plain ones do not. Each contains enough randomness to be
 * recognized.
 */
import type { SeededRandom } from '../chaos/seeded-random.ts'

type Shape = (random: SeededRandom) => string

const MAX_BYTES = 4096
const ALPHANUMERIC = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789'
const HEX = '0123456789abcdef'
const BASE64 = `${ALPHANUMERIC}+/`

/** What is stored. */
const SHAPES: Readonly<Record<string, Shape>> = {
  token: (random) => `ghp_${some(random, ALPHANUMERIC, 36)}`,
  jwt: (random) =>
    ['{"a":1}', some(random, ALPHANUMERIC, 40), some(random, ALPHANUMERIC, 90)]
      .map((part) => Buffer.from(part).toString('base64url'))
      .join('.'),
  quotes: (random) => mixed(random, `"'\`\\`, 24),
  symbols: (random) => mixed(random, '"\'\\%}<>&$`;|!#*?~^', 24),
  unicode: (random) => mixed(random, ['ü', 'ß', '字', '🔑', '👩‍💻', 'e\u0301', '\u202e', '\u2028', 'я'], 24),
  base64: (random) => Buffer.from(some(random, ALPHANUMERIC, 40 + upTo(random, 80))).toString('base64'),
  hex: (random) => some(random, HEX, 64),
  percent: (random) => mixed(random, ['%41', '%', '%zz', '%25', '%00', '%'], 24),
  formats: (random) => mixed(random, ['%s', '%d', '%n', '%v', '%!', '\u0024{HOME}', '$1'], 24),
  shell: (random) => `$(${some(random, ALPHANUMERIC, 20)});\`${some(random, ALPHANUMERIC, 12)}\`&x`,
  json: (random) => `{"auth":"${some(random, BASE64, 32)}","n":[${some(random, '123456789', 12)},null]}`,
  url: (random) => `https://u:${some(random, ALPHANUMERIC, 20)}@h.test/p?t=${some(random, HEX, 20)}&x#y`,
  html: (random) => `<b title="${some(random, ALPHANUMERIC, 20)}">&amp;${some(random, ALPHANUMERIC, 12)}</b>`,
  header: (random) => `Bearer ${some(random, `${ALPHANUMERIC}-_.`, 40)}==`,
  key: (random) => `-----BEGIN K ${some(random, BASE64, 120)} END-----`,
  flag: (random) => `--password=${some(random, ALPHANUMERIC, 24)}`,
  spaces: (random) => mixed(random, ['  ', ' ', '\u00a0'], 24),
  long: (random) => some(random, `${ALPHANUMERIC}"\\%/+ <&`, MAX_BYTES - 2).replace(/^|$/g, 'z'),
  'long-unicode': (random) => mixed(random, ['字', 'é', '🔑'], 500),
}

/** Secrets that are rejected, and must not be repeated in the problem. */
const REFUSED_SHAPES: Readonly<Record<string, Shape>> = {
  'two lines': (random) => `${some(random, ALPHANUMERIC, 24)}\n${some(random, ALPHANUMERIC, 24)}`,
  'line end': (random) => `${some(random, ALPHANUMERIC, 32)}\n`,
  'double braces': (random) => `{{ssm:${some(random, ALPHANUMERIC, 32)}}}`,
  'too long': (random) => some(random, ALPHANUMERIC, MAX_BYTES + 1),
  'white space': (random) => ` ${some(random, ALPHANUMERIC, 32)}`,
  'control character': (random) =>
    `${some(random, ALPHANUMERIC, 24)}\u001b[31m${some(random, ALPHANUMERIC, 24)}`,
}

export function hurtingSecrets(random: SeededRandom, count: number): string[] {
  return inTurns(SHAPES, random, count)
}

/** Name of the shape of the nth of those. */
export function hurtingShape(index: number): string {
  const names = Object.keys(SHAPES)
  return names[index % names.length] ?? ''
}

export function refusedSecrets(random: SeededRandom, count: number): string[] {
  return inTurns(REFUSED_SHAPES, random, count)
}

function inTurns(shapes: Readonly<Record<string, Shape>>, random: SeededRandom, count: number): string[] {
  const makers = Object.values(shapes)
  return Array.from({ length: count }, (_, i) => makers[i % makers.length]?.(random) ?? '')
}

/** What hurts, with something between that no other secret has. */
function mixed(random: SeededRandom, pieces: string | readonly string[], count: number): string {
  const parts = Array.from({ length: count }, () => some(random, pieces, 1) + some(random, ALPHANUMERIC, 2))
  return `z${parts.join('')}`
}

function some(random: SeededRandom, pieces: string | readonly string[], count: number): string {
  return Array.from(
    { length: count },
    () => pieces[Math.floor(random.fraction() * pieces.length)] ?? '',
  ).join('')
}

function upTo(random: SeededRandom, most: number): number {
  return Math.floor(random.fraction() * (most + 1))
}
