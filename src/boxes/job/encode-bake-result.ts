import { type BakeResult, MAX_RESULT_BYTES } from '../../apis/bake-result.ts'

/** The longest that JSON makes of one UTF-16 unit. */
const LONGEST_ESCAPE = 6

/**
 * A result as a termination message, which a kubelet cuts off after 4,096 bytes: the words of the tool give way. The limits of
 * names and services leave room for all the rest.
 */
export function encodeBakeResult(result: BakeResult): string {
  let encoded = JSON.stringify(result)
  if (!result.failure) return encoded
  let { message } = result.failure
  while (Buffer.byteLength(encoded) > MAX_RESULT_BYTES && message !== '') {
    const tooMany = Buffer.byteLength(encoded) - MAX_RESULT_BYTES
    const kept = message.slice(0, -Math.ceil(tooMany / LONGEST_ESCAPE))
    message = kept.replace(/[\ud800-\udbff]$/, '')
    encoded = JSON.stringify({ ...result, failure: { ...result.failure, message } })
  }
  return encoded
}
