import type { Socket } from 'node:net'
import { Client } from 'undici'
import type { Dial } from '../../net/dial.ts'
import type { ConnectTarget } from '../../net/egress-policy.ts'

/** One connection to an origin, for one exchange at a time. */
export type Connection = {
  readonly origin: string
  readonly client: Client
  /** The socket, connecting or connected; absent before the first exchange. */
  socket: Socket | undefined
  /** Exchanges that it has completed, since it was connected last. */
  completed: number
  /** Ends it, whatever it is doing. Resolves when the socket is closed. */
  destroy(): Promise<void>
}

/** How long a connection waits for the next exchange, unless the receiver announces less. */
const IDLE_MS = 30_000
const MAX_IDLE_MS = 60_000
/** A receiver that closes after n seconds is left this much earlier, so as not to meet its close. */
const IDLE_MARGIN_MS = 1000
const MAX_HEADER_BYTES = 16 * 1024

/** Connects with the first exchange, and again if the socket was closed in between. */
export function openConnection(target: ConnectTarget, dial: Dial): Connection {
  const client = new Client(target.origin, {
    pipelining: 1,
    maxHeaderSize: MAX_HEADER_BYTES,
    keepAliveTimeout: IDLE_MS,
    keepAliveMaxTimeout: MAX_IDLE_MS,
    keepAliveTimeoutThreshold: IDLE_MARGIN_MS,
    // The attempt has one deadline of its own over everything; these bound only gaps.
    headersTimeout: 0,
    bodyTimeout: 0,
    connect: (_options, callback) => {
      connection.completed = 0
      connection.socket = dial(target, (error, socket) =>
        socket ? callback(null, socket) : callback(error ?? new Error('not connected'), null),
      )
    },
  })
  const connection: Connection = {
    origin: target.origin,
    client,
    socket: undefined,
    completed: 0,
    destroy() {
      connection.socket?.destroy()
      return client.destroy()
    },
  }
  return connection
}
