/** What a registry secret may be, and in which form it is stored: passwords and tokens as given, keys that are documents in one line. */
import { tryParseJson } from '../lib/json.ts'

/** Most bytes of a standard parameter. */
const MAX_BYTES = 4096
/** A document may be longer before its indentation is removed. */
export const MAX_GIVEN_BYTES = 64 * 1024

export type RegistrySecret = { secret: string; problem?: never } | { secret?: never; problem: string }

/**
 * Rejects what the parameter store would reject, or a login would alter.
 * @param value the secret, or its bytes as a Secret has them
 * @returns the text to store, or the problem in words that follow "the secret" and never quote it
 */
export function parseRegistrySecret(value: string | Uint8Array): RegistrySecret {
  const text = typeof value === 'string' ? value : decodeUtf8(value)
  if (text === '') return { problem: 'must not be empty' }
  if (text === undefined || !text.isWellFormed()) return { problem: 'must be valid UTF-8 text' }
  if (Buffer.byteLength(text) > MAX_GIVEN_BYTES) return { problem: TOO_LARGE }
  const secret = documentInOneLine(text) ?? text
  const problem = problemOf(secret)
  return problem === undefined ? { secret } : { problem }
}

const TOO_LARGE = `must be at most ${MAX_BYTES} bytes, the size limit of a standard-tier parameter in AWS Parameter Store`

function problemOf(secret: string): string | undefined {
  if (Buffer.byteLength(secret) > MAX_BYTES) return TOO_LARGE
  const trimmed = secret.trim()
  if (/\p{Cc}/u.test(trimmed))
    return trimmed.startsWith('{')
      ? 'must be valid JSON if it begins with a brace and contains newlines or other control characters'
      : 'must not contain newlines or other control characters, unless it is a JSON document, such as a service account key'
  if (secret !== trimmed)
    return 'must not begin or end with whitespace, including newlines, because registry clients strip it (use printf, not echo)'
  const opened = secret.indexOf('{{')
  if (opened >= 0 && secret.includes('}}', opened + 2))
    return 'must not contain {{ followed by }}, which AWS Parameter Store rejects as a reference to another parameter'
  return undefined
}

/**
 * People paste the file of a key as they downloaded it, with indentation and line ends. Some clients send those, others remove them, so
 * the key is stored without them: JSON and base64 keep their meaning. What already is one line stays as it is.
 */
function documentInOneLine(text: string): string | undefined {
  const trimmed = text.trim()
  if (trimmed === text && !/\p{Cc}/u.test(text)) return undefined
  if (isDocument(trimmed)) return jsonInOneLine(trimmed)
  // Tools break lines of base64. Any password may be valid base64, so only that of a document counts.
  const joined = trimmed.replace(/\s+/g, '')
  return isDocument(decodeBase64(joined)?.trim()) ? joined : undefined
}

function isDocument(text: string | undefined): boolean {
  if (text === undefined || !/^[{[]/.test(text)) return false
  const value = tryParseJson(text)
  return typeof value === 'object' && value !== null
}

const STRING_OR_SPACE = /"(?:[^"\\]|\\[\s\S])*"?|\s+/g

/** Token by token, so that numbers and repeated names stay as they are. */
function jsonInOneLine(json: string): string {
  return json.replace(STRING_OR_SPACE, (part) => (part.startsWith('"') || /^ +$/.test(part) ? part : ' '))
}

const BASE64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/

function decodeBase64(text: string): string | undefined {
  return BASE64.test(text) ? decodeUtf8(Buffer.from(text, 'base64')) : undefined
}

export function decodeUtf8(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
