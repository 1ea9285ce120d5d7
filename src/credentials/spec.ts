/** What a registry's secret must be, so that the parameter store takes it and a login sends it as it is. */

/** Most bytes of a standard parameter. */
const MAX_BYTES = 4096

/**
 * @param value the secret, or its bytes as a Secret has them
 * @returns what is wrong, in words that follow "the secret"; no part of it is ever in them
 */
export function registrySecretProblem(value: string | Uint8Array): string | undefined {
  const text = typeof value === 'string' ? value : decoded(value)
  if (text === '') return 'is empty'
  if (text === undefined || !text.isWellFormed()) return 'is not text in UTF-8'
  if (Buffer.byteLength(text) > MAX_BYTES)
    return `has more than ${MAX_BYTES} bytes, which is the most that is stored`
  if (text !== text.trim())
    return 'begins or ends with white space or a line end, which a login leaves out; store it without (printf, not echo)'
  if (/\p{Cc}/u.test(text))
    return 'has a line end or another control character in it, which a login leaves out'
  if (text.includes('{{') || text.includes('}}'))
    return 'has {{ or }} in it, which the parameter store does not take'
  return undefined
}

function decoded(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch {
    return undefined
  }
}
