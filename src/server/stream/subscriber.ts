import type { Message, MessageBuffer } from './message-buffer.ts'
import { behind, formatStreamPosition, furthest, isBefore, type StreamPosition } from './position.ts'

/**
 * What one client of the stream has read, and what comes next for it. It holds a position and no messages: a slow client is one that
 * reads old messages of the buffer, until the buffer drops them.
 */
export class Subscriber {
  readonly organization: string
  readonly #buffer: MessageBuffer
  #position: StreamPosition
  /** Number of the next message in the buffer. */
  #next: number

  /** @param from where the client continues; absent: with what happens from now on */
  constructor(buffer: MessageBuffer, organization: string, from?: StreamPosition) {
    this.#buffer = buffer
    this.organization = organization
    this.#position = from ?? buffer.seen
    this.#next = from ? buffer.first(organization) : buffer.end(organization)
  }

  /** For the client to continue later, at any replica. */
  get position(): string {
    return formatStreamPosition(this.#position)
  }

  /** Whether there is nothing more to come: everything is being read again. */
  get isOver(): boolean {
    return this.#buffer.isClosed
  }

  /** Whether the buffer no longer has, or never had, something that comes next. */
  get isBehind(): boolean {
    return !this.#buffer.covers(this.organization, this.#position)
  }

  /** The next messages as text, about this long at most; empty if there are none. Not to be called when it is behind. */
  take(maxLength: number): string {
    const { organization } = this
    this.#next = Math.max(this.#next, this.#buffer.first(organization))
    let text = ''
    while (text.length < maxLength) {
      const message = this.#buffer.at(organization, this.#next)
      if (!message) {
        this.#position = furthest(this.#position, this.#buffer.seen)
        return text
      }
      this.#next += 1
      const { source, position } = message
      if (isBefore(position, this.#position[source])) continue
      this.#position = { ...this.#position, [source]: behind(position) }
      text += textOf(message, this.position)
    }
    return text
  }
}

function textOf({ type, data }: Pick<Message, 'data'> & { type: string }, position: string): string {
  return `id: ${position}\nevent: ${type}\ndata: ${data}\n\n`
}

/** A message that only says how far the client has read, and keeps the connection open. */
export function heartbeat(position: string): string {
  return textOf({ type: 'heartbeat', data: '{}' }, position)
}
