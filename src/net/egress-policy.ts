import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/**
 * Where Davit may connect, decided from addresses and URLs alone. One table says what an address is; webhooks and
 * registries apply their own rules to it. Webhooks reach public addresses and the networks that the cluster operator
 * allows (below); for registries see `boxes/registry/egress.ts`. `dial.ts` asks before it sends the first packet.
 */

/** `never` is for addresses that no one may allow by class: link-local, metadata services, reserved and malformed ones. */
export type AddressClass = 'public' | 'private' | 'loopback' | 'never'

/** `range` is for messages; it is `public` only for addresses that webhooks may reach without being allowed. */
type AddressDescription = { class: AddressClass; range: string }

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** Ranges of ipaddr.js; those that are missing are `never` and `reserved`. */
const RANGES: Readonly<Record<string, AddressDescription>> = {
  unspecified: { class: 'never', range: 'unspecified' },
  broadcast: { class: 'never', range: 'broadcast' },
  multicast: { class: 'never', range: 'multicast' },
  linkLocal: { class: 'never', range: 'link-local' },
  loopback: { class: 'loopback', range: 'loopback' },
  carrierGradeNat: { class: 'private', range: 'carrier-grade NAT' },
  private: { class: 'private', range: 'private' },
  uniqueLocal: { class: 'private', range: 'unique local' },
  '6to4': { class: 'never', range: '6to4' },
  teredo: { class: 'never', range: 'Teredo' },
  unicast: { class: 'public', range: 'public' },
}
const RESERVED: AddressDescription = { class: 'never', range: 'reserved' }

/** Services that give cloud identities to any client on the machine, at addresses that look like any other. */
const METADATA: ReadonlySet<string> = new Set([
  // Amazon: EC2, DNS and time, EKS pod identity.
  'fd00:ec2::254',
  'fd00:ec2::253',
  'fd00:ec2::123',
  'fd00:ec2::23',
  // Google.
  'fd20:ce::254',
  // Alibaba, Azure, Oracle.
  '100.100.100.200',
  '168.63.129.16',
  '192.0.0.192',
])

/** The only block from which IPv6 unicast addresses are assigned. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')

/** An IPv6 block whose addresses contain an IPv4 address that they stand for, or that a gateway may forward to. */
type Embedding = { block: [ipaddr.IPv6, number]; at: number }

const MAPPED: Embedding = { block: ipaddr.IPv6.parseCIDR('::ffff:0:0/96'), at: 12 }
/** Names resolve to it in clusters without IPv4. */
const NAT64: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 }
const LOCAL_NAT64: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'), at: 12 }
const COMPATIBLE: Embedding = { block: ipaddr.IPv6.parseCIDR('::/96'), at: 12 }
const SIX_TO_FOUR: Embedding = { block: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 }
const EMBEDDINGS = [MAPPED, NAT64, LOCAL_NAT64, COMPATIBLE, SIX_TO_FOUR]

/** @param text an IPv4 or IPv6 literal without brackets; anything else is `never` */
export function addressClass(text: string): AddressClass {
  const address = parseAddress(text)
  return address ? describeAddress(address).class : 'never'
}

function describeAddress(address: Address): AddressDescription {
  const translated = embeddedAddress(address, NAT64)
  if (translated) return describeAddress(translated)
  const mapped = embeddedAddress(address, MAPPED)
  if (mapped) return { class: describeAddress(mapped).class, range: 'IPv4-mapped' }
  const range = address.range()
  const described = RANGES[range] ?? RESERVED
  if (METADATA.has(address.toString()))
    return { class: 'never', range: range === 'unicast' ? 'metadata service' : described.range }
  const isUnassigned = range === 'unicast' && address instanceof ipaddr.IPv6 && !address.match(GLOBAL_UNICAST)
  return isUnassigned ? RESERVED : described
}

/** Zones name an interface of this machine; the parser would also accept forms that no resolver returns. */
function parseAddress(text: string): Address | undefined {
  return isIP(text) === 0 || text.includes('%') ? undefined : ipaddr.parse(text)
}

function embeddedAddress(address: Address, { block, at }: Embedding): Address | undefined {
  if (!(address instanceof ipaddr.IPv6) || !address.match(block)) return undefined
  return new ipaddr.IPv4(address.toByteArray().slice(at, at + 4))
}

/** `allowed`: the operator named its network, or the host. `range` describes a forbidden one; `denied`: the operator has forbidden it. */
export type AddressDecision =
  | { kind: 'public' }
  | { kind: 'allowed' }
  | { kind: 'forbidden'; range: string; denied?: true }

/** Which addresses webhooks may reach. */
export type AddressPolicy = {
  /**
   * Takes an IPv4 or IPv6 literal without brackets; anything else is forbidden.
   * @param hostname whose address it is, if it has a name
   */
  classify(address: string, hostname?: string): AddressDecision
  /** Whether this name may have an address that is not public. */
  mayBeInternal(hostname: string): boolean
  /** Whether any name may. */
  allowsInternalNames: boolean
  /** Whether the operator allowed this name itself, and not only networks. */
  isAllowedHost(hostname: string): boolean
}

/** CIDRs. */
export type WebhookNetworks = {
  /** May be reached although they are not public, and by plain http. */
  allowed: readonly string[]
  /** Never reached, even if they are public or part of an allowed network. */
  denied?: readonly string[]
  /** Names of hosts that may be reached at private addresses, and by plain http; lower case, without a trailing dot. */
  hosts?: readonly string[]
}

/** @throws Error if a network is not a CIDR */
export function createAddressPolicy(networks: WebhookNetworks): AddressPolicy {
  const allowed = networks.allowed.map((network) => ipaddr.parseCIDR(network))
  const denied = (networks.denied ?? []).map((network) => ipaddr.parseCIDR(network))
  const hosts = new Set(networks.hosts)
  return {
    allowsInternalNames: allowed.length > 0 || hosts.size > 0,
    mayBeInternal: (hostname) => allowed.length > 0 || hosts.has(hostname),
    isAllowedHost: (hostname) => hosts.has(hostname),
    classify(text, hostname = '') {
      const address = parseAddress(text)
      if (!address) return { kind: 'forbidden', range: 'malformed' }
      const forms = [address, ...EMBEDDINGS.map((embedding) => embeddedAddress(address, embedding))]
      if (forms.some((form) => isWithin(form, denied)))
        return { kind: 'forbidden', range: 'denied', denied: true }
      if (isWithin(address, allowed) || isWithin(embeddedAddress(address, MAPPED), allowed))
        return { kind: 'allowed' }
      const { range, class: addressClass } = describeAddress(address)
      // The owner of the name could point it at this machine, or at a metadata service.
      if (hosts.has(hostname) && addressClass === 'private') return { kind: 'allowed' }
      return range === 'public' ? { kind: 'public' } : { kind: 'forbidden', range }
    },
  }
}

function isWithin(address: Address | undefined, networks: readonly [Address, number][]): boolean {
  if (!address) return false
  return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
}

/**
 * `reason` tells the owner of the endpoint what is wrong with the URL, `warning` what DNS may still make wrong. Both are sentences, the
 * reason without a capital and a period.
 */
export type UrlDecision = { ok: true; warning?: string } | { ok: false; reason: string }

/** Whether a URL may receive webhooks, judged by the URL alone; the addresses of its name are checked at each attempt. */
export type UrlPolicy = { check(url: string): UrlDecision }

/** Where an attempt connects to. */
export type ConnectTarget = {
  /** Scheme, host and port; attempts to the same origin share connections. */
  origin: string
  secure: boolean
  /** Without brackets and without a trailing dot. */
  hostname: string
  /** The name to resolve: with its trailing dot, if it has one, which means that no search list applies. */
  queryName: string
  port: number
  /** Path and query. */
  path: string
  /** The name is never public. */
  isInternalName: boolean
  /** Only addresses of allowed networks will do: plain http, and names that are never public. */
  internal: boolean
}

export type TargetDecision = { ok: true; target: ConnectTarget } | { ok: false; reason: string }

const MAX_URL_LENGTH = 2048

/** Names that public DNS does not have; a single label is completed by the machine's own search list. */
const INTERNAL_NAME = /^[^.]+$|(^|\.)(localhost|localdomain|local|internal|svc|home\.arpa)$/

/** Judges the parsed URL only, because the raw text has many spellings of one host. Undefined: no objection. */
type Rule = (url: URL, policy: AddressPolicy) => string | undefined

/** What a URL must be to receive webhooks (interface §2.3: an HTTPS URL). */
const RULES: readonly Rule[] = [
  // Web protocols only.
  (url) => (/^https?:$/.test(url.protocol) ? undefined : 'the URL must start with https://'),
  // User information would be sent to the receiver and be visible in the URL.
  (url) => (url.username || url.password ? 'the URL must not contain a user name or password' : undefined),
  // A fragment is never sent.
  (url) => (url.href.includes('#') ? 'the URL must not contain a fragment' : undefined),
  // An empty label is in no name.
  (url) => (/^$|^\.|\.\.|\.$/.test(hostnameOf(url)) ? 'the host name is not valid' : undefined),
  // Port 0 cannot be connected to.
  (url) => (url.port === '0' ? 'the port must be from 1 to 65535' : undefined),
  forbiddenAddress,
  internalName,
  plainHttp,
]

/** @throws Error if a network is not a CIDR */
export function createUrlPolicy(networks: WebhookNetworks): UrlPolicy {
  const policy = createAddressPolicy(networks)
  return {
    check(url) {
      const decision = targetOf(url, policy)
      if (!decision.ok) return decision
      const warning = plainHttpWarning(decision.target, policy)
      return warning === undefined ? { ok: true } : { ok: true, warning }
    },
  }
}

/** The target that `text` names, or why it may not be one. */
export function targetOf(text: string, policy: AddressPolicy): TargetDecision {
  if (text.length > MAX_URL_LENGTH) return { ok: false, reason: 'the URL must be at most 2,048 characters' }
  // The parser drops tabs and line breaks and reads backslashes as slashes: such a text is not what it seems.
  if (/[\s\p{Cc}\\]/u.test(text) || !URL.canParse(text))
    return { ok: false, reason: 'the URL cannot be parsed' }
  const url = new URL(text)
  for (const rule of RULES) {
    const reason = rule(url, policy)
    if (reason !== undefined) return { ok: false, reason }
  }
  const secure = url.protocol === 'https:'
  const hostname = hostnameOf(url)
  const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
  const hasInternalName = isInternalName(url)
  const target: ConnectTarget = {
    origin: `${url.protocol}//${host}${url.port === '' ? '' : `:${url.port}`}`,
    secure,
    hostname,
    queryName: hostname + (url.hostname.endsWith('.') ? '.' : ''),
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    isInternalName: hasInternalName,
    internal: !secure || hasInternalName,
  }
  return { ok: true, target }
}

/** With the names of the chart's values: owners pass the message on to their operator. */
const WHO_ALLOWS = {
  address: 'only the cluster operator can allow it, in config.allowedNetworks',
  name: 'only the cluster operator can allow it, in clusterReceivers or config.allowedHosts',
} as const

function forbiddenAddress(url: URL, policy: AddressPolicy): string | undefined {
  const hostname = hostnameOf(url)
  if (isIP(hostname) === 0) return undefined
  const decision = policy.classify(hostname)
  if (decision.kind !== 'forbidden') return undefined
  if (decision.denied) return `the address ${hostname} is in a network that the cluster operator has blocked`
  return `the address ${hostname} is not public (${decision.range}); ${WHO_ALLOWS.address}`
}

function internalName(url: URL, policy: AddressPolicy): string | undefined {
  if (!isInternalName(url) || policy.mayBeInternal(hostnameOf(url))) return undefined
  return `the name ${url.hostname} is not public; ${WHO_ALLOWS.name}`
}

function plainHttp(url: URL, policy: AddressPolicy): string | undefined {
  if (url.protocol === 'https:') return undefined
  const hostname = hostnameOf(url)
  const allowed =
    isIP(hostname) === 0 ? policy.mayBeInternal(hostname) : policy.classify(hostname).kind === 'allowed'
  return allowed
    ? undefined
    : 'the URL must start with https://; plain HTTP is allowed only for networks and hosts that the cluster operator permits'
}

/** A public name can have an address in an allowed network, but most do not. */
function plainHttpWarning(
  { secure, hostname, isInternalName }: ConnectTarget,
  policy: AddressPolicy,
): string | undefined {
  if (secure || isInternalName || isIP(hostname) !== 0 || policy.isAllowedHost(hostname)) return undefined
  return `Davit sends plain HTTP only to networks that the cluster operator allows. If ${hostname} resolves to an address outside those networks, every attempt fails with "connection refused". Use https:// instead.`
}

function isInternalName(url: URL): boolean {
  const hostname = hostnameOf(url)
  return isIP(hostname) === 0 && INTERNAL_NAME.test(hostname)
}

/** A trailing dot only says that the name is complete (RFC 3986 §3.2.2): certificates and the Host header do without it. */
function hostnameOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}
