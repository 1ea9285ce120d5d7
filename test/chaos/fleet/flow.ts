/** One direction of a connection: bytes always keep their order. */
import type { Socket } from 'node:net'

export type FlowOptions = {
  /** Called for each chunk when it arrives. */
  delayMs(): number
  isSwallowed(): boolean
}

/** `end`: the sender has no more. */
type Piece = { bytes: Buffer | 'end'; due: number }

/** Buffer size of one flow; beyond it the sender waits, as with network buffers. */
const MAX_BYTES = 4 * 1024 * 1024

export class Flow {
  isHeld = false
  hasLost = false
  readonly #from: Socket
  readonly #to: Socket
  readonly #options: FlowOptions
  #pieces: Piece[] = []
  #bytes = 0
  #timer: NodeJS.Timeout | undefined

  constructor(from: Socket, to: Socket, options: FlowOptions) {
    this.#from = from
    this.#to = to
    this.#options = options
    from.on('data', (bytes) => this.#take(bytes))
    from.on('end', () => this.#take('end'))
    // Without an end: it was reset, and so is the other side.
    from.on('close', () => {
      if (!from.readableEnded && !to.destroyed) to.resetAndDestroy()
    })
    to.on('drain', () => this.#pump())
  }

  release(): void {
    this.isHeld = false
    this.#pump()
  }

  /** Drops what is in transit. */
  drop(): void {
    clearTimeout(this.#timer)
    this.#pieces = []
  }

  #take(bytes: Buffer | 'end'): void {
    if (this.#options.isSwallowed()) {
      this.hasLost = true
      return
    }
    this.#pieces.push({ bytes, due: performance.now() + this.#options.delayMs() })
    if (bytes !== 'end') this.#bytes += bytes.length
    if (this.#bytes > MAX_BYTES) this.#from.pause()
    this.#pump()
  }

  #pump(): void {
    clearTimeout(this.#timer)
    for (;;) {
      const [piece] = this.#pieces
      if (!piece || this.isHeld || this.#to.destroyed || this.#to.writableNeedDrain) return
      const wait = piece.due - performance.now()
      if (wait > 0) {
        this.#timer = setTimeout(() => this.#pump(), wait)
        return
      }
      this.#pieces.shift()
      this.#pass(piece.bytes)
    }
  }

  #pass(bytes: Buffer | 'end'): void {
    if (bytes === 'end') {
      this.#to.end()
      return
    }
    this.#bytes -= bytes.length
    if (this.#bytes <= MAX_BYTES && this.#from.isPaused()) this.#from.resume()
    this.#to.write(bytes)
  }
}
