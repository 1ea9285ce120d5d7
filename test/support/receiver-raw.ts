/** A server on the level of bytes, for receivers that violate HTTP. */
import { subscribe, unsubscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { createServer as createSecureServer } from 'node:tls'
import type { Certificate } from './tls.ts'

export type RawReceiver = {
  /** `http://127.0.0.1:port` or, with a certificate, `https://localhost:port`. */
  url: string
  port: number
  /** TCP connections so far. */
  connections(): number
  /** Open connections. */
  open(): number
  /** Resolves when no connection is open. */
  drained(): Promise<void>
  close(): Promise<void>
}

/** @param serve gets each connection, for TLS after its handshake @param host default 127.0.0.1 */
export async function startRawReceiver(
  serve: (socket: Socket) => void,
  options: { tls?: Certificate; host?: string } = {},
): Promise<RawReceiver> {
  const { tls, host = '127.0.0.1' } = options
  const guarded = (socket: Socket) => {
    socket.on('error', () => undefined)
    // A socket without a reader does not notice that the other side has gone.
    socket.resume()
    serve(socket)
  }
  const server = tls ? createSecureServer(tls, guarded) : createServer(guarded)
  const sockets = new Set<Socket>()
  let count = 0
  server.on('tlsClientError', () => undefined)
  server.on('connection', (socket: Socket) => {
    count += 1
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, host)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    url: tls ? `https://localhost:${port}` : `http://127.0.0.1:${port}`,
    port,
    connections: () => count,
    open: () => sockets.size,
    async drained() {
      for (const socket of sockets) {
        // Not `once`, which fails with the socket's error.
        if (!socket.closed) await new Promise((resolve) => socket.on('close', resolve))
      }
    },
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await once(server, 'close')
    },
  }
}

/** Calls `answer` once per complete request. */
export function onRequest(socket: Socket, answer: (socket: Socket) => void): void {
  let received = Buffer.alloc(0)
  socket.on('data', (chunk: Buffer) => {
    received = Buffer.concat([received, chunk])
    const head = received.indexOf('\r\n\r\n')
    const length = Number(/content-length: (\d+)/i.exec(received.subarray(0, head).toString('latin1'))?.[1])
    if (head < 0 || received.length < head + 4 + length) return
    received = received.subarray(head + 4 + length)
    answer(socket)
  })
}

/** The channel on which the HTTP client reports that it has read a response head. */
const HEADS = 'undici:request:headers'

/** Resolves when the client in this process has read `count` response heads, including interim ones. */
export function clientHasRead(count: number): Promise<void> {
  return new Promise((resolve) => {
    let seen = 0
    const see = () => {
      seen += 1
      if (seen < count) return
      unsubscribe(HEADS, see)
      resolve()
    }
    subscribe(HEADS, see)
  })
}
