/** Opens sockets to receivers: resolves once, refuses what is forbidden, dials exactly what was vetted. */
import { isIP, type LookupFunction, connect as netConnect, Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext, connect as tlsConnect } from 'node:tls'
import type { AddressPolicy } from './address-policy.ts'
import type { ConnectTarget } from './egress-policy.ts'
import type { Resolve } from './resolver.ts'

/** The address is one that Davit does not connect to. */
export class BlockedError extends Error {
  override readonly name = 'BlockedError'
}

export type DialOptions = {
  policy: AddressPolicy
  resolve: Resolve
  /** PEM of authorities that are trusted besides the known ones. */
  ca?: string | undefined
}

/** Called once, with an error or a socket that is connected, over TLS where the target is. */
export type Dialed = (error: Error | null, socket: Socket | null) => void

/** Returns the socket at once, still connecting, so that the caller can give up on it. */
export type Dial = (target: ConnectTarget, dialed: Dialed) => Socket

/** How long one of several addresses is tried before the next. */
const ADDRESS_TIMEOUT_MS = 2500
/** Origins whose TLS session is kept, so that a new connection costs one round trip and less CPU. */
const MAX_SESSIONS = 1000

export function createDial(options: DialOptions): Dial {
  const { policy } = options
  const secureContext = createContext(options.ca)
  const sessions = createSessionCache()

  return (target, dialed) => {
    const permits = (address: string | undefined) =>
      address !== undefined && mayReach(policy, address, target)
    const tcp = {
      host: target.hostname,
      port: target.port,
      lookup: vettedResolverLookup(options.resolve, permits),
      autoSelectFamily: true,
      autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
      noDelay: true,
      keepAlive: true,
    }
    // A literal is dialled without a look-up, so nothing else would judge it before the first packet.
    const literal = isIP(target.hostname) !== 0
    if (literal && !permits(target.hostname)) {
      queueMicrotask(() => dialed(new BlockedError(), null))
      return new Socket()
    }
    const socket = target.secure
      ? tlsConnect({
          ...tcp,
          ...(literal ? {} : { servername: target.hostname }),
          secureContext,
          session: sessions.get(target.origin),
          ALPNProtocols: ['http/1.1'],
          rejectUnauthorized: true,
        }).on('session', (session: Buffer) => sessions.set(target.origin, session))
      : netConnect(tcp)
    settleOnce(socket, target, permits, dialed)
    return socket
  }
}

function settleOnce(
  socket: Socket,
  target: ConnectTarget,
  permits: (address: string | undefined) => boolean,
  dialed: Dialed,
): void {
  let settled = false
  const settle: Dialed = (error, connected) => {
    if (settled) return
    settled = true
    dialed(error, connected)
  }
  socket.once('connect', () => {
    if (permits(socket.remoteAddress)) {
      if (!target.secure) settle(null, socket)
      return
    }
    socket.destroy()
    settle(new BlockedError(), null)
  })
  if (target.secure) socket.once('secureConnect', () => settle(null, socket))
  // Stays for good: a late error of a socket that nobody uses any more must not end the process.
  socket.on('error', (error) => settle(error, null))
}

function mayReach(policy: AddressPolicy, address: string, target: ConnectTarget): boolean {
  const { kind } = policy.classify(address)
  return target.internal ? kind === 'allowed' : kind !== 'forbidden'
}

/** One forbidden address among several makes the name forbidden: which one is dialled would be chance. */
function vettedResolverLookup(resolve: Resolve, permits: (address: string) => boolean): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname).then(
      (addresses) => {
        if (!addresses.every(permits)) return callback(new BlockedError(), [])
        callback(
          null,
          addresses.map((address) => ({ address, family: isIP(address) })),
        )
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    )
  }
}

/** Made once: parsing the known authorities takes milliseconds. */
function createContext(ca: string | undefined): SecureContext {
  const authorities = ca === undefined ? {} : { ca: [...getCACertificates('default'), ca] }
  return createSecureContext({ minVersion: 'TLSv1.2', ...authorities })
}

type SessionCache = { get(origin: string): Buffer | undefined; set(origin: string, session: Buffer): void }

function createSessionCache(): SessionCache {
  const sessions = new Map<string, Buffer>()
  return {
    get: (origin) => sessions.get(origin),
    set(origin, session) {
      sessions.delete(origin)
      sessions.set(origin, session)
      const [oldest] = sessions.keys()
      if (sessions.size > MAX_SESSIONS && oldest !== undefined) sessions.delete(oldest)
    },
  }
}
