import { promises as dns, lookup } from 'node:dns'
import { isIP, type LookupFunction, connect as netConnect, Socket } from 'node:net'
import {
  connect,
  createSecureContext,
  getCACertificates,
  type SecureContext,
  type TLSSocket,
  connect as tlsConnect,
} from 'node:tls'
import { LRUCache } from 'lru-cache'
import type { buildConnector } from 'undici'
import { type AddressClass, type AddressPolicy, addressClass, type ConnectTarget } from './egress-policy.ts'

/**
 * Names to addresses. DNS is asked directly, not through getaddrinfo: that runs on two threads of the process,
 * which a few names with a slow server would keep from all others. Names are asked for as they are written,
 * without the machine's search list.
 */

/** Addresses of a name, at least one. @throws an error with the code of node:dns (`ENOTFOUND`, `ETIMEOUT`, ...) */
type Resolve = (hostname: string) => Promise<readonly string[]>

/** Single questions; the part that tests replace. Each rejects with a code of node:dns. */
export type NameServer = {
  resolve4(hostname: string): Promise<string[]>
  resolve6(hostname: string): Promise<string[]>
  /** The machine's own way: /etc/hosts, search list. */
  lookup(hostname: string): Promise<string[]>
}

export type ResolverOptions = {
  /** Whether names that DNS does not have are looked up the machine's way: for receivers inside the cluster. */
  machineNames: boolean
  server?: NameServer
}

const ATTEMPT_TIMEOUT_MS = 2000
const ATTEMPTS = 2
/** Look-ups the machine's way at a time; they share the process's threads with file access. */
const MAX_LOOKUPS = 2
const MAX_ADDRESSES = 6

const LOOPBACK = ['127.0.0.1', '::1'] as const
const NOT_FOUND: ReadonlySet<string> = new Set(['ENOTFOUND', 'ENODATA'])

export function createResolver(options: ResolverOptions): Resolve {
  const server = options.server ?? systemNameServer()
  const lookup = limitConcurrency(MAX_LOOKUPS, server.lookup)
  const waiting = new Map<string, Promise<readonly string[]>>()

  async function ask(hostname: string): Promise<readonly string[]> {
    // RFC 6761: never a question for DNS.
    if (/(^|\.)localhost$/.test(hostname)) return LOOPBACK
    const [v4, v6] = await Promise.allSettled([server.resolve4(hostname), server.resolve6(hostname)])
    const found = interleave(answersOf(v4), answersOf(v6))
    if (found.length > 0) return found
    const error = failureOf(v4, v6)
    if (!options.machineNames || !NOT_FOUND.has(codeOf(error))) throw error
    const known = await lookup(hostname)
    if (known.length === 0) throw error
    return known.slice(0, MAX_ADDRESSES)
  }

  // One question at a time per name: a burst to one receiver is one question.
  return (hostname) => {
    const running = waiting.get(hostname)
    if (running) return running
    const answer = ask(hostname).finally(() => waiting.delete(hostname))
    waiting.set(hostname, answer)
    return answer
  }
}

function systemNameServer(): NameServer {
  const resolver = new dns.Resolver({ timeout: ATTEMPT_TIMEOUT_MS, tries: ATTEMPTS })
  return {
    resolve4: (hostname) => resolver.resolve4(hostname),
    resolve6: (hostname) => resolver.resolve6(hostname),
    lookup: async (hostname) => (await dns.lookup(hostname, { all: true })).map(({ address }) => address),
  }
}

/** Both families in turn, so that a machine without one of them soon comes to the other. */
function interleave(v4: readonly string[], v6: readonly string[]): string[] {
  const mixed: string[] = []
  for (let i = 0; i < Math.max(v4.length, v6.length); i += 1) {
    for (const address of [v4[i], v6[i]]) if (address !== undefined) mixed.push(address)
  }
  return mixed.slice(0, MAX_ADDRESSES)
}

function answersOf(result: PromiseSettledResult<string[]>): string[] {
  return result.status === 'fulfilled' ? result.value : []
}

/** The failure that says most: "there is no such name" only when neither family had another trouble. */
function failureOf(...results: PromiseSettledResult<string[]>[]): unknown {
  const errors = results.flatMap((result) => (result.status === 'rejected' ? [result.reason as unknown] : []))
  const trouble = errors.find((error) => !NOT_FOUND.has(codeOf(error)))
  return trouble ?? errors[0] ?? Object.assign(new Error('no address'), { code: 'ENOTFOUND' })
}

function codeOf(error: unknown): string {
  return error instanceof Error && 'code' in error ? String(error.code) : ''
}

function limitConcurrency<T>(max: number, run: (name: string) => Promise<T>): (name: string) => Promise<T> {
  let running = 0
  const queue: (() => void)[] = []
  return async (name) => {
    if (running >= max) await new Promise<void>((resolve) => queue.push(resolve))
    else running += 1
    try {
      return await run(name)
    } finally {
      const next = queue.shift()
      if (next) next()
      else running -= 1
    }
  }
}

/** The address is one that no bake connects to. */
export class ForbiddenAddressError extends Error {
  override readonly name = 'ForbiddenAddressError'
  readonly code = 'FORBIDDEN_ADDRESS'
}

/**
 * For the moment in which an address is dialled: what a name meant before does not count. One forbidden address among several makes
 * the name forbidden, since which one is dialled would be chance.
 */
export function vettedLookup(permits: (kind: AddressClass) => boolean): LookupFunction {
  return (hostname, _options, callback) => {
    lookup(hostname, { all: true, verbatim: true }, (error, found) => {
      if (error) return callback(error, [])
      if (!found.every(({ address }) => permits(addressClass(address))))
        return callback(forbidden(hostname), [])
      callback(null, found)
    })
  }
}

/** Of a host that is an address already, which nobody looks up. @param hostname without brackets */
export function forbiddenLiteral(
  hostname: string,
  permits: (kind: AddressClass) => boolean,
): ForbiddenAddressError | undefined {
  return isIP(hostname) === 0 || permits(addressClass(hostname)) ? undefined : forbidden(hostname)
}

function forbidden(hostname: string): ForbiddenAddressError {
  return new ForbiddenAddressError(`${hostname} is at an address that no bake connects to`)
}

const CONNECT_MS = 10_000

/** Who is trusted: what Node and the machine trust, as the tool does, and one more where it is given. Read once: it takes long. */
export function loadTrustedCertificates(extraCa: string | undefined): SecureContext {
  const own = [...getCACertificates('default'), ...getCACertificates('system')]
  const ca = extraCa === undefined ? own : [...own, extraCa]
  return createSecureContext({ ca, minVersion: 'TLSv1.2' })
}

export type VettedConnectOptions = {
  trust: SecureContext
  /** Asked of every address before the first packet. */
  permits(kind: AddressClass): boolean
  /** Told where it went. */
  onConnected(kind: AddressClass): void
}

/** Connects over TLS to an address that was looked at in the very moment in which it is dialled. */
export function vettedConnect(options: VettedConnectOptions): buildConnector.connector {
  return (target, callback) => {
    const hostname = target.hostname.replace(/^\[|\]$/g, '')
    const literal = isIP(hostname) !== 0
    const forbidden = forbiddenLiteral(hostname, options.permits)
    if (forbidden) return callback(forbidden, null)
    const socket: TLSSocket = connect({
      host: hostname,
      port: Number(target.port) || 443,
      lookup: vettedLookup(options.permits),
      ...(literal ? {} : { servername: hostname }),
      secureContext: options.trust,
      ALPNProtocols: ['http/1.1'],
    })
    let settled = false
    const settle = (error: Error | null) => {
      if (settled) return
      settled = true
      socket.setTimeout(0)
      if (error) {
        socket.destroy()
        callback(error, null)
        return
      }
      options.onConnected(addressClass(socket.remoteAddress ?? ''))
      callback(null, socket)
    }
    socket.setTimeout(CONNECT_MS, () => settle(timeoutError()))
    socket.once('secureConnect', () => settle(null))
    // Stays for good: a late error of a socket that nobody uses any more must not end the process.
    socket.on('error', (error) => settle(error))
  }
}

function timeoutError(): Error {
  return Object.assign(new Error('the connection was not made in time'), { code: 'ETIMEDOUT' })
}

/** Opens sockets to receivers: resolves once, refuses what is forbidden, dials exactly what was vetted. */

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
  const sessions = new LRUCache<string, Buffer>({ max: MAX_SESSIONS })

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
