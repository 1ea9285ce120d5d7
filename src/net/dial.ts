import { isIP, type LookupFunction, connect as netConnect, Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext, connect as tlsConnect } from 'node:tls'
import type { Resolve } from './resolver.ts'

/**
 * Connects to servers that users name. `dial` resolves a name once, asks the caller about every address, and connects
 * to exactly what was vetted, so an answer that changes between the check and the connection (DNS rebinding) has no
 * effect.
 */

/** The name is, or resolves to, an address that the caller does not permit. */
export class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError'
  readonly hostname: string
  /** The user must not learn that the name exists. */
  readonly seemsUnknown: boolean

  constructor(hostname: string, { seemsUnknown = false } = {}) {
    super(`${hostname} is at a forbidden address`)
    this.hostname = hostname
    this.seemsUnknown = seemsUnknown
  }
}

/**
 * A name that only networks inside of the cluster have, and that does not exist. Its error reads like that of a forbidden address, so
 * that endpoints cannot be used to find out which names exist.
 */
export class UnknownInternalNameError extends Error {
  override readonly name = 'UnknownInternalNameError'
}

export type DialOptions = {
  resolve: Resolve
  /** Asked about every address before the first packet, and about the one that was reached. */
  permits(address: string): boolean
  /** Absent: plain TCP. */
  tls?: { context: SecureContext }
  /** For the whole connection, TLS included. Absent: the caller gives up by itself. */
  timeoutMs?: number
  /** How long one of several addresses is tried before the next. */
  addressTimeoutMs?: number
}

/** Called once, with an error or with a socket that is connected, over TLS if asked. */
export type OnDialed = (error: Error | null, socket: Socket | null) => void

/**
 * Returns the socket at once, still connecting, so that the caller can give up on it.
 * @param hostname a name, or an address without brackets
 */
export function dial(hostname: string, port: number, options: DialOptions, onDialed: OnDialed): Socket {
  const { permits, tls, timeoutMs, addressTimeoutMs } = options
  const isLiteral = isIP(hostname) !== 0
  // A literal is dialed without a look-up, so nothing else would check it before the first packet.
  if (isLiteral && !permits(hostname)) {
    const unused = new Socket().once('error', (error) => onDialed(error, null))
    return unused.destroy(new ForbiddenAddressError(hostname))
  }
  const closed = new AbortController()
  const tcp = {
    host: hostname,
    port,
    lookup: vettedLookup(options, closed.signal),
    autoSelectFamily: true,
    ...(addressTimeoutMs === undefined ? {} : { autoSelectFamilyAttemptTimeout: addressTimeoutMs }),
    noDelay: true,
    keepAlive: true,
  }
  // Sessions are never resumed: the certificate may have expired or been replaced since, and a resumed session shows the old one.
  const socket = tls
    ? tlsConnect({
        ...tcp,
        ...(isLiteral ? {} : { servername: hostname }),
        secureContext: tls.context,
        ALPNProtocols: ['http/1.1'],
        rejectUnauthorized: true,
      })
    : netConnect(tcp)
  socket.once('close', () => closed.abort())

  let settled = false
  const settle = (error: Error | null) => {
    if (settled) return
    settled = true
    if (timeoutMs !== undefined) socket.setTimeout(0)
    if (error) socket.destroy()
    onDialed(error, error ? null : socket)
  }
  if (timeoutMs !== undefined)
    socket.setTimeout(timeoutMs, () => settle(coded('ETIMEDOUT', 'the connection was not made in time')))
  socket.once('connect', () => {
    const { remoteAddress } = socket
    if (remoteAddress === undefined) settle(coded('ECONNRESET', 'the connection was reset'))
    else if (!permits(remoteAddress)) settle(new ForbiddenAddressError(hostname))
    else if (!tls) settle(null)
  })
  if (tls) socket.once('secureConnect', () => settle(null))
  // Never removed: a late error of a socket that is no longer in use must not end the process.
  socket.on('error', settle)
  return socket
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

/** One forbidden address among several makes the name forbidden, because which one is dialed would be chance. */
function vettedLookup({ resolve, permits }: DialOptions, signal: AbortSignal): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname, signal).then(
      (addresses) => {
        if (!addresses.every(permits)) return callback(new ForbiddenAddressError(hostname), [])
        callback(
          null,
          addresses.map((address) => ({ address, family: isIP(address) })),
        )
      },
      (error: NodeJS.ErrnoException) => callback(error, []),
    )
  }
}

/**
 * Trusts what Node trusts, the machine's own authorities if `withSystem`, and `extraCa` (PEM). Create it once: reading
 * the authorities takes long.
 */
export function createTrust(extraCa: string | undefined, withSystem: boolean): SecureContext {
  // Without `ca`, Node uses authorities that it has parsed already.
  if (extraCa === undefined && !withSystem) return createSecureContext({ minVersion: 'TLSv1.2' })
  const ca = [...getCACertificates('default'), ...(withSystem ? getCACertificates('system') : [])]
  if (extraCa !== undefined) ca.push(extraCa)
  return createSecureContext({ ca, minVersion: 'TLSv1.2' })
}
