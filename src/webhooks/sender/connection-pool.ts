/**
 * Idle connections, kept for the next exchange with the same origin. Each attempt has a connection of its own
 * while it lasts, so a path that hangs holds up no other path of its host; attempts at a time are bounded by
 * the caller.
 */

import type { ConnectTarget } from '../../net/egress-policy.ts'
import type { Connection } from './connection.ts'

export type ConnectionPool = {
  /** An idle connection to the target's origin, the one used last, or a new one. */
  take(target: ConnectTarget): Connection
  /** Gives a connection back after a complete exchange. */
  release(connection: Connection): void
  /** Ends the idle connections. Those given back later are ended too. */
  close(): Promise<void>
}

/** @param maxIdle connections kept in all; beyond it the one that is idle longest ends */
export function createConnectionPool(
  open: (target: ConnectTarget) => Connection,
  maxIdle: number,
): ConnectionPool {
  const byOrigin = new Map<string, Connection[]>()
  // In the order in which they became idle.
  const idle = new Set<Connection>()
  let closed = false

  function forget(connection: Connection): void {
    if (!idle.delete(connection)) return
    const peers = byOrigin.get(connection.origin)
    if (!peers) return
    peers.splice(peers.indexOf(connection), 1)
    if (peers.length === 0) byOrigin.delete(connection.origin)
  }

  function discard(connection: Connection): Promise<void> {
    forget(connection)
    return connection.destroy()
  }

  function openFor(target: ConnectTarget): Connection {
    const connection = open(target)
    // The receiver closed it, or it was idle for too long.
    connection.client.on('disconnect', () => {
      if (idle.has(connection)) void discard(connection)
    })
    return connection
  }

  return {
    take(target) {
      const connection = byOrigin.get(target.origin)?.at(-1)
      if (!connection) return openFor(target)
      forget(connection)
      return connection
    },
    release(connection) {
      if (closed || connection.socket?.destroyed !== false) {
        void connection.destroy()
        return
      }
      idle.add(connection)
      const peers = byOrigin.get(connection.origin)
      if (peers) peers.push(connection)
      else byOrigin.set(connection.origin, [connection])
      const [oldest] = idle
      if (idle.size > maxIdle && oldest) void discard(oldest)
    },
    async close() {
      closed = true
      await Promise.all([...idle].map(discard))
    },
  }
}
