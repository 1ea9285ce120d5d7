/** What this process tries to connect to, seen where Node hands it to the system. */
import { Socket, type TcpSocketConnectOpts } from 'node:net'

export type Dialled = {
  /** Addresses, in the order in which they were tried. */
  readonly addresses: readonly string[]
  stop(): void
}

/** Also names that would be looked up on the way are in it. */
export function watchDialling(): Dialled {
  const addresses: string[] = []
  const { emit, connect } = Socket.prototype
  Socket.prototype.emit = function (this: Socket, ...args: unknown[]) {
    if (args[0] === 'connectionAttempt') addresses.push(String(args[1]))
    return Reflect.apply(emit, this, args) as boolean
  } as typeof emit
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
    const [first] = args.flat() as [Partial<TcpSocketConnectOpts> | undefined]
    // With a `lookup` of its own a name is judged there, and comes by as an attempt.
    if (first?.host !== undefined && first.lookup === undefined) addresses.push(first.host)
    return Reflect.apply(connect, this, args) as Socket
  } as typeof connect
  return {
    addresses,
    stop() {
      Object.assign(Socket.prototype, { emit, connect })
    },
  }
}
