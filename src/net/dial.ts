import { promises as dns } from 'node:dns'
import { isIP, type LookupFunction, connect as netConnect, Socket } from 'node:net'
import { createSecureContext, getCACertificates, type SecureContext, connect as tlsConnect } from 'node:tls'
import { Semaphore } from '../lib/semaphore.ts'

/**
 * Connects to servers that users name. `dial` resolves a name once, asks the caller about every address, and connects
 * to exactly what was vetted, so an answer that changes between the check and the connection (DNS rebinding) has no
 * effect. Webhooks resolve with `createResolver`, registries with `lookUp`, as the tool that pulls the image does.
 */

/** Addresses of a name, at least one. @throws Error with a code of node:dns (`ENOTFOUND`, `ETIMEOUT`, ...) */
export type Resolve = (hostname: string) => Promise<readonly string[]>

/** Single DNS queries; tests replace them. All reject with a code of node:dns. */
export type NameServer = {
  resolve4(hostname: string): Promise<string[]>
  resolve6(hostname: string): Promise<string[]>
  /** The machine's own way: /etc/hosts, search list. */
  lookup(hostname: string): Promise<readonly string[]>
}

const QUERY_TIMEOUT_MS = 2000
const QUERY_TRIES = 2
/** They share the process's threads with file access. */
const MAX_CONCURRENT_LOOKUPS = 2
const MAX_ADDRESSES = 6

const NOT_FOUND: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA'])

/** The machine's own way: /etc/hosts, search list. */
export const lookUp: Resolve = async (hostname) =>
  (await dns.lookup(hostname, { all: true })).map(({ address }) => address)

/**
 * Queries DNS directly instead of getaddrinfo, which runs on two threads of the process: a few names with a slow
 * server would block all others. Names are queried as written, without the machine's search list.
 * `machineNames`: look up names that DNS does not have the machine's own way, for receivers inside the cluster.
 */
export function createResolver(options: { machineNames: boolean; server?: NameServer | undefined }): Resolve {
  const server = options.server ?? systemNameServer()
  const lookups = new Semaphore({ atOnce: MAX_CONCURRENT_LOOKUPS })
  const running = new Map<string, Promise<readonly string[]>>()

  async function query(hostname: string): Promise<readonly string[]> {
    // RFC 6761: never a question for DNS.
    if (/(^|\.)localhost$/.test(hostname)) return ['127.0.0.1', '::1']
    const [v4, v6] = await Promise.allSettled([server.resolve4(hostname), server.resolve6(hostname)])
    const found = interleave(addressesOf(v4), addressesOf(v6))
    if (found.length > 0) return found
    const error = mostTelling(v4, v6)
    if (!options.machineNames || !NOT_FOUND.has(codeOf(error))) throw error
    const known = await lookups.run(async () => await server.lookup(hostname))
    if (known.length === 0) throw error
    return known.slice(0, MAX_ADDRESSES)
  }

  // One query at a time per name: a burst to one receiver is one query.
  return (hostname) => {
    const known = running.get(hostname)
    if (known) return known
    const result = query(hostname).finally(() => running.delete(hostname))
    running.set(hostname, result)
    return result
  }
}

function systemNameServer(): NameServer {
  const resolver = new dns.Resolver({ timeout: QUERY_TIMEOUT_MS, tries: QUERY_TRIES })
  return {
    resolve4: (hostname) => resolver.resolve4(hostname),
    resolve6: (hostname) => resolver.resolve6(hostname),
    lookup: lookUp,
  }
}

/** Alternates the families, so that a machine without one of them soon gets to the other. */
function interleave(v4: readonly string[], v6: readonly string[]): string[] {
  const mixed: string[] = []
  for (let i = 0; i < Math.max(v4.length, v6.length); i += 1) {
    for (const address of [v4[i], v6[i]]) if (address !== undefined) mixed.push(address)
  }
  return mixed.slice(0, MAX_ADDRESSES)
}

function addressesOf(result: PromiseSettledResult<string[]>): string[] {
  return result.status === 'fulfilled' ? result.value : []
}

/** "No such name" only if neither family failed in another way. */
function mostTelling(...results: PromiseSettledResult<string[]>[]): unknown {
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const trouble = errors.find((error) => !NOT_FOUND.has(codeOf(error)))
  return trouble ?? errors[0] ?? coded('ENOTFOUND', 'no address')
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

function coded(code: string, message: string): Error {
  return Object.assign(new Error(message), { code })
}

/** The name is, or resolves to, an address that the caller does not permit. */
export class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError'
  readonly hostname: string

  constructor(hostname: string) {
    super(`${hostname} is at a forbidden address`)
    this.hostname = hostname
  }
}

export type DialOptions = {
  resolve: Resolve
  /** Asked about every address before the first packet, and about the one that was reached. */
  permits(address: string): boolean
  /** Absent: plain TCP. */
  tls?: { context: SecureContext; session?: Buffer | undefined; onSession?(session: Buffer): void }
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
  const tcp = {
    host: hostname,
    port,
    lookup: vettedLookup(options),
    autoSelectFamily: true,
    ...(addressTimeoutMs === undefined ? {} : { autoSelectFamilyAttemptTimeout: addressTimeoutMs }),
    noDelay: true,
    keepAlive: true,
  }
  const socket = tls
    ? tlsConnect({
        ...tcp,
        ...(isLiteral ? {} : { servername: hostname }),
        secureContext: tls.context,
        session: tls.session,
        ALPNProtocols: ['http/1.1'],
        rejectUnauthorized: true,
      }).on('session', (session: Buffer) => tls.onSession?.(session))
    : netConnect(tcp)

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

/** One forbidden address among several makes the name forbidden, because which one is dialed would be chance. */
function vettedLookup({ resolve, permits }: DialOptions): LookupFunction {
  return (hostname, _options, callback) => {
    resolve(hostname).then(
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
