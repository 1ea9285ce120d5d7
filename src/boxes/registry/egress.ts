import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { hostOfUrl, urlHostOf } from '../../apis/registry-host.ts'
import { dial } from '../../net/dial.ts'
import { type AddressClass, addressClass } from '../../net/egress-policy.ts'
import { lookUp } from '../../net/resolver.ts'
import { connectFailureOf } from './outcome.ts'

/**
 * Where a bake may connect, for one registry. Our own requests check it themselves; the tool that pulls the image goes
 * through a proxy that checks every address at the moment it is dialed, because what the registry answered us may differ
 * when the tool asks again.
 */

/** Docker Hub serves its API from another host than its images' names say. */
const API_HOSTS: ReadonlyMap<string, string> = new Map([['docker.io', 'registry-1.docker.io']])

/** The host that serves the images of a registry. */
export function apiHostOf(registry: string): string {
  return API_HOSTS.get(registry) ?? registry
}

/**
 * A registry may be in a private network, and so may the hosts that it refers to; a public registry leads into no such
 * network. Loopback must be named as such, or be allowed by the operator. One policy per registry, so that what is near
 * one registry is not open to another.
 */
export class EgressPolicy {
  readonly #registry: string | undefined
  readonly #allowed: ReadonlySet<string | undefined>
  /** Where connections to the registry ended up. */
  readonly #registryClasses = new Set<AddressClass>()

  /** @param allowed hosts of the operator; all hosts include their port unless it is 443 */
  constructor(registry: string, allowed: readonly string[]) {
    this.#registry = urlHostOf(apiHostOf(registry))
    this.#allowed = new Set(allowed.map(urlHostOf))
  }

  isRegistry(url: URL): boolean {
    return this.#registry === hostOfUrl(url)
  }

  permits(kind: AddressClass, url: URL): boolean {
    const isOwn = this.isRegistry(url)
    const isNear = this.#registryClasses.has('loopback') || this.#allowed.has(hostOfUrl(url))
    if (kind === 'private') return isOwn || isNear || this.#registryClasses.has('private')
    if (kind === 'loopback') return isNear || (isOwn && isLoopbackName(url))
    return kind === 'public'
  }

  recordConnection(kind: AddressClass, url: URL): void {
    if (this.isRegistry(url)) this.#registryClasses.add(kind)
  }
}

/** Names that mean this machine, whatever DNS says. */
function isLoopbackName(url: URL): boolean {
  const hostname = url.hostname.replace(/\.$/, '')
  const isNamed = hostname === 'localhost' || hostname.endsWith('.localhost')
  return isNamed || addressClass(hostname.replace(/^\[|\]$/g, '')) === 'loopback'
}

export type EgressProxy = {
  /** Variables that route a tool through it; tools connect to loopback directly. */
  environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

const CONNECT_MS = 10_000

/** For one pull. @param registry canonical host of the image @param allowed hosts of the operator */
export async function startEgressProxy(registry: string, allowed: readonly string[]): Promise<EgressProxy> {
  const policy = new EgressPolicy(registry, allowed)
  const sockets = new Set<Duplex>()
  const track = (socket: Duplex) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
  // Everything but a tunnel would be plain http.
  const server = createServer((_request, response) =>
    response.writeHead(403).end('Plain HTTP is not allowed.\n'),
  )
  server.on('connection', track)
  server.on('connect', (request, client, head) => {
    const upstream = openTunnel(policy, request, client, head)
    if (upstream) track(upstream)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return {
    environment: { HTTPS_PROXY: url, HTTP_PROXY: url },
    async close() {
      const closed = once(server, 'close')
      server.close()
      for (const socket of sockets) socket.destroy()
      await closed
    },
  }
}

function openTunnel(
  policy: EgressPolicy,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Socket | undefined {
  // If a tunnel breaks, each end sees the other one close.
  client.on('error', () => undefined)
  const url = URL.parse(`https://${request.url}`)
  if (!url) {
    reject(client, 'invalid host')
    return undefined
  }
  const options = {
    resolve: lookUp,
    permits: (address: string) => policy.permits(addressClass(address), url),
    timeoutMs: CONNECT_MS,
  }
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const upstream = dial(hostname, Number(url.port) || 443, options, (error) => {
    if (error) return reject(client, connectErrorText(error, url))
    policy.recordConnection(addressClass(upstream.remoteAddress ?? ''), url)
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    upstream.write(head)
    client.pipe(upstream)
    upstream.pipe(client)
    upstream.once('close', () => client.destroy())
  })
  client.once('close', () => upstream.destroy())
  return upstream
}

/** Tools report the reason phrase as the reason why they could not connect. */
function reject(client: Duplex, reason: string): void {
  client.end(`HTTP/1.1 502 ${reason.replace(/[^\x20-\x7e]/g, '?').slice(0, 300)}\r\n\r\n`)
}

const CONNECT_ERRORS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'no such host',
  ENODATA: 'no such host',
  EAI_AGAIN: 'temporary failure in name resolution',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset by peer',
  ENETUNREACH: 'network is unreachable',
  EHOSTUNREACH: 'no route to host',
  ETIMEDOUT: 'i/o timeout',
}

/** In the words of the tool, which `outcome.ts` knows. */
function connectErrorText(error: Error, { host }: URL): string {
  const { code, failure, words } = connectFailureOf(error)
  const subject = failure === 'dns' ? `lookup ${host}` : `dial tcp ${host}`
  return failure === 'forbidden-address' ? words : `${subject}: ${CONNECT_ERRORS[code] ?? words}`
}
