/**
 * A proxy to a server on this machine, or to several that connections alternate between. It can be cut, slowed down, made deaf in
 * one direction, or made to hold some of its connections while others pass. It does not interpret the data.
 */
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { Flow } from './flow.ts'

/** `up`: from the client to the server. */
export type Direction = 'up' | 'down'

type Pair = { client: Socket; upstream: Socket; flows: Record<Direction, Flow> }

export class TcpProxy {
  readonly #server: Server
  readonly #targets: readonly { host: string; port: number }[]
  #taken = 0
  readonly #pairs = new Set<Pair>()
  #isCut = false
  readonly #delays: Record<Direction, number> = { up: 0, down: 0 }
  readonly #swallows: Record<Direction, boolean> = { up: false, down: false }

  private constructor(targets: readonly URL[]) {
    this.#targets = targets.map(({ hostname, port }) => ({ host: hostname, port: Number(port) }))
    this.#server = createServer({ allowHalfOpen: true, noDelay: true }, (client) => this.#take(client))
  }

  static async start(...targets: readonly URL[]): Promise<TcpProxy> {
    const proxy = new TcpProxy(targets)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  get connections(): number {
    return this.#pairs.size
  }

  /** Open connections that have lost data. */
  get deafened(): number {
    return [...this.#pairs].filter(({ flows }) => flows.up.hasLost || flows.down.hasLost).length
  }

  /** Breaks every connection, and every new one immediately. */
  cut(): void {
    this.#isCut = true
    for (const pair of this.#pairs) breakUp(pair)
  }

  /** @param ms for data from now on, in that direction */
  delay(direction: Direction, ms: number): void {
    this.#delays[direction] = ms
  }

  /** Drops data in that direction from now on, on connections that stay open. */
  swallow(direction: Direction): void {
    this.#swallows[direction] = true
  }

  /** Blocks the chosen open connections; others, including new ones, overtake them. */
  hold(chosen: (index: number) => boolean): void {
    for (const [index, { flows }] of [...this.#pairs].entries()) {
      if (!chosen(index)) continue
      flows.up.isHeld = true
      flows.down.isHeld = true
    }
  }

  /** Lets everything through again. Held connections continue; a connection that has lost data cannot, and ends. */
  heal(): void {
    this.#isCut = false
    for (const direction of ['up', 'down'] as const) {
      this.#delays[direction] = 0
      this.#swallows[direction] = false
    }
    for (const pair of this.#pairs) {
      if (pair.flows.up.hasLost || pair.flows.down.hasLost) breakUp(pair)
      pair.flows.up.release()
      pair.flows.down.release()
    }
  }

  async close(): Promise<void> {
    this.cut()
    this.#server.close()
    await once(this.#server, 'close')
  }

  #take(client: Socket): void {
    if (this.#isCut) {
      client.on('error', () => undefined)
      client.resetAndDestroy()
      return
    }
    const target = this.#targets[this.#taken % this.#targets.length] ?? { host: '', port: 0 }
    this.#taken += 1
    const upstream = connect({ ...target, noDelay: true, allowHalfOpen: true })
    const flow = (direction: Direction, from: Socket, to: Socket) =>
      new Flow(from, to, {
        delayMs: () => this.#delays[direction],
        isSwallowed: () => this.#swallows[direction],
      })
    const flows = { up: flow('up', client, upstream), down: flow('down', upstream, client) }
    const pair = { client, upstream, flows }
    this.#pairs.add(pair)
    upstream.on('error', () => breakUp(pair))
    client.on('error', () => breakUp(pair))
    for (const socket of [client, upstream])
      socket.on('close', () => {
        if (client.destroyed && upstream.destroyed) this.#pairs.delete(pair)
      })
  }
}

function breakUp({ client, upstream, flows }: Pair): void {
  flows.up.drop()
  flows.down.drop()
  for (const socket of [client, upstream]) if (!socket.destroyed) socket.resetAndDestroy()
}
