/** Records the received bytes, so that tests can search them for secrets. */
import type { IncomingMessage } from 'node:http'
import { parseTree } from 'jsonc-parser'

const MAX_BYTES = 64 * 1024 * 1024
/** The only operation in which a secret belongs: it stores the value of a parameter. */
const STORING = 'AmazonSSM.PutParameter'
const STORED = '"[stored]"'

/**
 * The latest requests as bytes (request line, headers and body), each without the value that it stores; the oldest are dropped
 * first.
 */
export class Received {
  #requests: Buffer[] = []
  #bytes = 0
  #dropped = 0
  readonly #listeners = new Set<(bytes: Buffer) => void>()

  add(request: IncomingMessage, body: Buffer): void {
    const lines = [`${request.method} ${request.url} HTTP/${request.httpVersion}`]
    for (let at = 0; at + 1 < request.rawHeaders.length; at += 2)
      lines.push(`${request.rawHeaders[at]}: ${request.rawHeaders[at + 1]}`)
    const isStoring = request.headers['x-amz-target'] === STORING
    const bytes = Buffer.concat([
      Buffer.from(`${lines.join('\r\n')}\r\n\r\n`, 'latin1'),
      isStoring ? withoutValue(body) : body,
    ])
    this.#requests.push(bytes)
    this.#bytes += bytes.length
    while (this.#bytes > MAX_BYTES) this.#drop()
    for (const listener of this.#listeners) listener(bytes)
  }

  all(): readonly Buffer[] {
    return this.#requests
  }

  /** How many requests have been dropped. */
  get dropped(): number {
    return this.#dropped
  }

  /** Reports every further request. @returns a function that ends it */
  watch(listener: (bytes: Buffer) => void): () => void {
    this.#listeners.add(listener)
    return () => this.#listeners.delete(listener)
  }

  clear(): void {
    this.#requests = []
    this.#bytes = 0
  }

  #drop(): void {
    this.#bytes -= this.#requests.shift()?.length ?? 0
    this.#dropped += 1
  }
}

/** Removes only the member itself: any other occurrence of the secret stays, so that it is found. */
function withoutValue(body: Buffer): Buffer {
  const text = body.toString('utf8')
  const members = parseTree(text)?.children ?? []
  const values = members
    .filter(({ children }) => children?.[0]?.value === 'Value')
    .flatMap(({ children }) => children?.[1] ?? [])
    .sort((a, b) => b.offset - a.offset)
  return Buffer.from(
    values.reduce(
      (left, { offset, length }) => left.slice(0, offset) + STORED + left.slice(offset + length),
      text,
    ),
  )
}
