/** More than a program is willing to read. */
export class InputTooLongError extends Error {
  override readonly name = 'InputTooLongError'
}

/** All of a stream as text in UTF-8. Throws InputTooLongError beyond `maxBytes`. */
export async function readInput(stream: AsyncIterable<Uint8Array>, maxBytes: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of stream) {
    size += chunk.byteLength
    if (size > maxBytes) throw new InputTooLongError(`has more than ${maxBytes} bytes`)
    chunks.push(chunk)
  }
  return Buffer.concat(chunks).toString('utf8')
}
