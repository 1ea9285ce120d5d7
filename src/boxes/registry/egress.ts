import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import { forbiddenLiteral, vettedLookup } from '../../net/dial.ts'
import { type AddressClass, addressClass } from '../../net/egress-policy.ts'
import { connectFailureOf } from './outcome.ts'

/** Docker Hub's API has another host than its images. */
const API_HOSTS: ReadonlyMap<string, string> = new Map([['docker.io', 'registry-1.docker.io']])

/** The host that is asked for images of a registry. */
export function apiHostOf(registry: string): string {
  return API_HOSTS.get(registry) ?? registry
}

/**
 * Where one may go from a registry, by the address that a name has in the moment in which it is dialled. A registry may be in a
 * private network, and so may be whatever it names; one that is public leads nobody into such a network. Loopback has to be meant: by
 * its name, or by the operator. Each registry has its own, so that what is near one of them is not open to another.
 */
export class EgressPolicy {
  readonly #registry: string | undefined
  readonly #allowed: ReadonlySet<string | undefined>
  /** Where the registry was found. */
  readonly #places = new Set<AddressClass>()

  /** @param allowed hosts of the operator; all hosts have their port where it is not 443 */
  constructor(registry: string, allowed: readonly string[]) {
    this.#registry = urlHostOf(apiHostOf(registry))
    this.#allowed = new Set(allowed.map(urlHostOf))
  }

  isRegistry({ host }: URL): boolean {
    return this.#registry === host
  }

  permits(kind: AddressClass, url: URL): boolean {
    const isOwn = this.isRegistry(url)
    const isBeside = this.#places.has('loopback') || this.#allowed.has(url.host)
    if (kind === 'private') return isOwn || isBeside || this.#places.has('private')
    if (kind === 'loopback') return isBeside || (isOwn && isLoopbackName(url))
    return kind === 'public'
  }

  /** Told where it went. */
  recordConnection(kind: AddressClass, url: URL): void {
    if (this.isRegistry(url)) this.#places.add(kind)
  }
}

/** As URLs write it; undefined where it is none. */
function urlHostOf(text: string): string | undefined {
  return URL.parse(`https://${text}`)?.host
}

/** Names that mean this machine whoever answers for names. */
function isLoopbackName({ hostname }: URL): boolean {
  const isNamed = hostname === 'localhost' || hostname.endsWith('.localhost')
  return isNamed || addressClass(hostname.replace(/^\[|\]$/g, '')) === 'loopback'
}

/**
 * The way from the tool into the network: a proxy that looks at every address in the moment in which it is dialled, as our own requests
 * do. What the registry has told us before may be something else when the tool asks again.
 */

export type EgressProxy = {
  /** Variables that lead a tool through it. It goes to loopback by itself, as tools do. */
  environment: Readonly<Record<string, string>>
  close(): Promise<void>
}

export type EgressProxyOptions = {
  /** Canonical host of the image. */
  registry: string
  /** Hosts of the operator. */
  allowed: readonly string[]
}

const CONNECT_MS = 10_000

/** For one pull. */
export async function startEgressProxy({ registry, allowed }: EgressProxyOptions): Promise<EgressProxy> {
  const reach = new EgressPolicy(registry, allowed)
  const sockets = new Set<Duplex>()
  const keep = (socket: Duplex) => {
    sockets.add(socket)
    socket.once('close', () => sockets.delete(socket))
  }
  // Whatever is no tunnel would go over plain http.
  const server = createServer((_request, response) => response.writeHead(403).end('No plain http.\n'))
  server.on('connection', keep)
  server.on('connect', (request, client, head) => {
    const onward = open(reach, request, client, head)
    if (onward) keep(onward)
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

function open(
  reach: EgressPolicy,
  request: IncomingMessage,
  client: Duplex,
  head: Buffer,
): Socket | undefined {
  // Of a tunnel that breaks each end sees the other one go.
  client.on('error', () => undefined)
  const url = URL.parse(`https://${request.url}`)
  if (!url) return refuse(client, 'it is no host')
  const hostname = url.hostname.replace(/^\[|\]$/g, '')
  const permits = (kind: AddressClass) => reach.permits(kind, url)
  const forbidden = forbiddenLiteral(hostname, permits)
  if (forbidden) return refuse(client, forbidden.message)
  const onward = connect({
    host: hostname,
    port: Number(url.port) || 443,
    lookup: vettedLookup(permits),
    autoSelectFamily: true,
  })
  const fail = (error: Error) => void refuse(client, wordsOf(error, url))
  onward.setTimeout(CONNECT_MS, () => onward.destroy(new Error('i/o timeout')))
  onward.once('error', fail)
  onward.once('connect', () => {
    onward.setTimeout(0)
    onward.off('error', fail).on('error', () => client.destroy())
    reach.recordConnection(addressClass(onward.remoteAddress ?? ''), url)
    client.write('HTTP/1.1 200 Connection established\r\n\r\n')
    onward.write(head)
    client.pipe(onward)
    onward.pipe(client)
  })
  client.once('close', () => onward.destroy())
  onward.once('close', () => client.destroy())
  return onward
}

/** Tools show the reason of the answer as the reason why they could not connect. */
function refuse(client: Duplex, reason: string): undefined {
  client.end(`HTTP/1.1 502 ${reason.replace(/[^\x20-\x7e]/g, '?').slice(0, 300)}\r\n\r\n`)
}

const WORDS: Readonly<Record<string, string>> = {
  ENOTFOUND: 'no such host',
  ENODATA: 'no such host',
  EAI_AGAIN: 'temporary failure in name resolution',
  ECONNREFUSED: 'connection refused',
  ECONNRESET: 'connection reset by peer',
  ENETUNREACH: 'network is unreachable',
  EHOSTUNREACH: 'no route to host',
  ETIMEDOUT: 'i/o timeout',
}

/** As the tool itself would say it. */
function wordsOf(error: Error, { host }: URL): string {
  const { code, failure, words } = connectFailureOf(error)
  const about = failure === 'dns' ? `lookup ${host}` : `dial tcp ${host}`
  return failure === 'forbidden-address' ? words : `${about}: ${WORDS[code] ?? words}`
}
