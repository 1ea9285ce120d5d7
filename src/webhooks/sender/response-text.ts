/** What is kept of a response: enough to see what a receiver said, harmless wherever it is shown. */

const KEPT_BYTES = 256

/** Line breaks and tabs become spaces, other control and invisible formatting characters the replacement character. */
export function responseText(head: Uint8Array): string {
  // In stream mode a character that the cut went through is left out.
  const text = new TextDecoder().decode(head.subarray(0, KEPT_BYTES), { stream: true })
  return text.replace(/[\t\r\n]+/g, ' ').replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, '\uFFFD')
}

/** Adds to `head` what of `chunk` is still to be kept. The result shares no memory with a socket's buffer. */
export function keepHead(head: Uint8Array, chunk: Uint8Array): Uint8Array {
  if (head.length >= KEPT_BYTES) return head
  return Buffer.concat([head, chunk.subarray(0, KEPT_BYTES - head.length)])
}
