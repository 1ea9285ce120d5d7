import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

export type Link = {
  /** Its own port on loopback. */
  port: number
  /** Breaks all connections and rejects new ones. */
  cut(): void
  /** Keeps connections open, and lets nothing through in either direction. */
  freeze(): void
  /** Accepts new connections. */
  restore(): void
  close(): Promise<void>
}

/** A proxy to a port on loopback that a test can cut. */
export async function startLink(to: number): Promise<Link> {
  let broken = false
  const sockets = new Set<Socket>()
  const keep = (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
  }
  const server = createServer((near) => {
    keep(near)
    if (broken) {
      near.resetAndDestroy()
      return
    }
    const far = connect(to, '127.0.0.1')
    keep(far)
    near.pipe(far).pipe(near)
    near.on('close', () => far.destroy())
    far.on('close', () => near.destroy())
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const cut = () => {
    broken = true
    for (const socket of sockets) socket.resetAndDestroy()
  }
  return {
    port: (server.address() as AddressInfo).port,
    cut,
    freeze() {
      for (const socket of sockets) socket.unpipe().pause()
    },
    restore() {
      broken = false
    },
    close() {
      cut()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
}
