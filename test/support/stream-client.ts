import type { StreamConnection } from '../../src/server/http/response-stream.ts'

/** Clients of the event stream, and what they read. */

export type ReadMessage = { id: string; type: string; data: Record<string, unknown> }

/** Reads server-sent events as their specification says, in pieces of any length. */
export class StreamReader {
  /** Without heartbeats. */
  readonly messages: ReadMessage[] = []
  /** Of every message, heartbeats included. */
  readonly ids: string[] = []
  readonly comments: string[] = []
  lastId = ''
  retryMs: number | undefined
  heartbeats = 0
  #text = ''

  push(text: string): void {
    const blocks = (this.#text + text).split('\n\n')
    this.#text = blocks.pop() ?? ''
    for (const block of blocks) this.#read(block)
  }

  #read(block: string): void {
    const fields = new Map(block.split('\n').map(fieldIn))
    const [id, type, data] = ['id', 'event', 'data'].map((name) => fields.get(name) ?? '')
    if (fields.has('')) this.comments.push(fields.get('') ?? '')
    if (fields.has('retry')) this.retryMs = Number(fields.get('retry'))
    if (!id || !type || !data) return
    this.lastId = id
    this.ids.push(id)
    if (type === 'heartbeat') this.heartbeats += 1
    else this.messages.push({ id, type, data: JSON.parse(data) as Record<string, unknown> })
  }
}

/** A comment has no name. */
function fieldIn(line: string): [name: string, value: string] {
  const [, name, value] = /^(id|event|data|retry|): ?(.*)$/.exec(line) ?? []
  if (name === undefined || value === undefined) throw new Error(`no line of a stream: ${line}`)
  return [name, value]
}

/** A client in memory. It reads as long as it is not `isSlow`; then so much fits until it is told to wait. */
export class FakeStreamClient implements StreamConnection {
  readonly reader = new StreamReader()
  isSlow = false
  isEnded = false
  isAborted = false
  /** Thrown when it is authorized again. */
  denial: unknown
  authorized = 0
  #unread = ''
  readonly #onDrain: (() => void)[] = []
  readonly #onClose: (() => void)[] = []

  get unreadLength(): number {
    return this.#unread.length
  }

  write(text: string): boolean {
    if (this.isEnded) throw new Error('written after its end')
    if (!this.isSlow) {
      this.reader.push(text)
      return true
    }
    this.#unread += text
    return false
  }

  end(text: string): void {
    this.#unread += text
    this.isEnded = true
    if (!this.isSlow) this.read()
    this.close()
  }

  abort(): void {
    this.isAborted = true
    this.close()
  }

  /** It reads what was written while it was slow, and is slow no more. */
  read(): void {
    this.isSlow = false
    this.reader.push(this.#unread)
    this.#unread = ''
    if (!this.isEnded) for (const listener of this.#onDrain) listener()
  }

  close(): void {
    this.isEnded = true
    for (const listener of this.#onClose.splice(0)) listener()
  }

  onDrain(listener: () => void): void {
    this.#onDrain.push(listener)
  }

  onClose(listener: () => void): void {
    this.#onClose.push(listener)
  }

  async authorize(): Promise<void> {
    this.authorized += 1
    if (this.denial !== undefined) throw this.denial
  }
}

export type HttpStreamClient = {
  reader: StreamReader
  /** Resolves when the stream has ended, however. */
  ended: Promise<unknown>
  close(): void
}

type StreamTarget = { url: string; key: string; lastEventId?: string | undefined }

/** Connects over HTTP. @param pace awaited after each piece, for a client that reads slowly @throws Error if there is no stream */
export async function connectStream(
  { url, key, lastEventId }: StreamTarget,
  pace?: (reader: StreamReader) => Promise<unknown>,
): Promise<HttpStreamClient> {
  const leaving = new AbortController()
  const headers = { authorization: key, ...(lastEventId ? { 'last-event-id': lastEventId } : {}) }
  const response = await fetch(url, { headers, signal: leaving.signal })
  if (response.status !== 200 || !response.body)
    throw new Error(`${response.status} ${await response.text()}`)
  const reader = new StreamReader()
  const text = response.body.pipeThrough(new TextDecoderStream())
  const read = async () => {
    for await (const piece of text) {
      reader.push(piece)
      await pace?.(reader)
    }
  }
  return { reader, ended: read().catch(() => undefined), close: () => leaving.abort() }
}
