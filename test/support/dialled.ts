/** Records the connections that this process tries to open, at the point where Node calls the system. */
import { Socket, type TcpSocketConnectOpts } from 'node:net'

export type Dialled = {
  /** Addresses, in the order of the attempts. */
  readonly addresses: readonly string[]
  stop(): void
}

/** Includes names that would be resolved during the connection. */
export function watchDialling(): Dialled {
  const addresses: string[] = []
  const { emit, connect } = Socket.prototype
  Socket.prototype.emit = function (this: Socket, ...args: unknown[]) {
    if (args[0] === 'connectionAttempt') addresses.push(String(args[1]))
    return Reflect.apply(emit, this, args) as boolean
  } as typeof emit
  Socket.prototype.connect = function (this: Socket, ...args: unknown[]) {
    const [first] = args.flat() as [Partial<TcpSocketConnectOpts> | undefined]
    // With a custom `lookup`, the name is judged there, and its address appears as an attempt.
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
