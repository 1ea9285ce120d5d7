/** Hands on connections that come to another address of this machine: what listens on loopback is then reached from pods. */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'

/** @param url with the port on loopback @returns the same at the address */
export async function forward(address: string, url: string): Promise<{ url: string; stop(): Promise<void> }> {
  const port = Number(new URL(url).port)
  const sockets = new Set<Socket>()
  const server = createServer((from) => {
    const to = connect(port, '127.0.0.1')
    for (const [one, other] of [
      [from, to],
      [to, from],
    ] as const) {
      sockets.add(one)
      one.on('error', () => other.destroy())
      one.once('close', () => sockets.delete(one))
      one.pipe(other)
    }
  })
  server.listen(0, address)
  await once(server, 'listening')
  return {
    url: `http://${address}:${(server.address() as AddressInfo).port}`,
    async stop() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}
