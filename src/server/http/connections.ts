import type { Socket } from 'node:net'

type Connection = { socket: Socket; requests: number; isRejected: boolean }

/**
 * Bounds connections. An idle connection costs its client nothing. So if there are too many, the one that has been idle for longest is
 * closed, in favor of one that may have a request. A new one is rejected only while all others have requests in progress.
 */
export class Connections {
  readonly #max: number
  readonly #open = new Set<Connection>()
  /** The one that has been idle for longest comes first. */
  readonly #idle = new Set<Connection>()
  readonly #bySocket = new WeakMap<Socket, Connection>()
  /** Of connections whose TLS handshake has not ended. */
  readonly #byPeer = new Map<string, Connection>()

  constructor(max: number) {
    this.#max = max
  }

  /** A new connection; with TLS, before its handshake. */
  opened(socket: Socket, { handshake }: { handshake: boolean }): void {
    const connection = { socket, requests: 0, isRejected: false }
    this.#open.add(connection)
    this.#bySocket.set(socket, connection)
    const peer = peerOf(socket)
    if (handshake) this.#byPeer.set(peer, connection)
    socket.once('close', () => {
      this.#forget(connection)
      if (this.#byPeer.get(peer) === connection) this.#byPeer.delete(peer)
    })
    if (this.#open.size > this.#max && !this.#closeOne()) connection.isRejected = true
    else this.#idle.add(connection)
  }

  /** The TLS handshake has ended: requests come from another socket, on the same connection. */
  secured(socket: Socket): void {
    const peer = peerOf(socket)
    const connection = this.#byPeer.get(peer)
    this.#byPeer.delete(peer)
    if (connection) this.#bySocket.set(socket, connection)
  }

  isRejected(socket: Socket): boolean {
    return this.#bySocket.get(socket)?.isRejected === true
  }

  /** @returns the call to make when the response has ended */
  requested(socket: Socket): () => void {
    const connection = this.#bySocket.get(socket)
    if (!connection) return () => undefined
    connection.requests += 1
    this.#idle.delete(connection)
    return () => {
      connection.requests -= 1
      if (connection.requests === 0 && this.#open.has(connection)) this.#idle.add(connection)
    }
  }

  #closeOne(): boolean {
    const [longest] = this.#idle
    if (!longest) return false
    this.#forget(longest)
    longest.socket.destroy()
    return true
  }

  #forget(connection: Connection): void {
    this.#open.delete(connection)
    this.#idle.delete(connection)
  }
}

function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remoteAddress} ${remotePort}`
}
