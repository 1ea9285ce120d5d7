import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** What an address is to a bake: a registry may be private, and nothing is ever a link-local or metadata service. */

export type AddressClass = 'public' | 'private' | 'loopback' | 'never'

const PRIVATE: ReadonlySet<string> = new Set(['private', 'uniqueLocal', 'carrierGradeNat'])

/** Services that give identities to whoever asks from this machine, at addresses that look like any other. */
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
/** Stand for an IPv4 address: in a way that nothing uses any more, and in one that networks do. */
const COMPATIBLE = ipaddr.IPv6.parseCIDR('::/96')
const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96')

/** @param text an IPv4 or IPv6 literal without brackets; anything else is `never` */
export function addressClass(text: string): AddressClass {
  if (!ipaddr.isValid(text) || text.includes('%')) return 'never'
  const address = ipaddr.parse(text)
  if (address instanceof ipaddr.IPv6) {
    if (address.isIPv4MappedAddress()) return addressClass(address.toIPv4Address().toString())
    if (address.match(NAT64)) {
      return addressClass(new ipaddr.IPv4(address.toByteArray().slice(12)).toString())
    }
  }
  if (METADATA.has(address.toString())) return 'never'
  const range = address.range()
  if (range === 'unicast' && address instanceof ipaddr.IPv6 && address.match(COMPATIBLE)) return 'never'
  if (range === 'unicast') return 'public'
  if (range === 'loopback') return 'loopback'
  return PRIVATE.has(range) ? 'private' : 'never'
}

/** Which addresses webhooks may reach: public ones, and those of the networks that the operator allows, but none that the operator has closed. */

/** `allowed`: the operator named its network. `range` says in words what a forbidden one is, `closed` that the operator has forbidden it. */
export type AddressDecision =
  | { kind: 'public' }
  | { kind: 'allowed' }
  | { kind: 'forbidden'; range: string; closed?: true }

export type AddressPolicy = {
  /** Verdict on an IPv4 or IPv6 literal, without brackets; anything else is forbidden. */
  classify(address: string): AddressDecision
  /** Whether the operator allows any network at all. */
  allowsNetworks: boolean
}

type Address = ipaddr.IPv4 | ipaddr.IPv6

/** The only block of IPv6 from which unicast addresses are given out. */
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3')
/** Where in an IPv6 address of a block an IPv4 address is, for which it stands, or to which a gateway may pass it on. */
type Embedding = { block: [ipaddr.IPv6, number]; at: number }

const MAPPED: Embedding = { block: ipaddr.IPv6.parseCIDR('::ffff:0:0/96'), at: 12 }
/** Names resolve to it in clusters without IPv4. */
const NAT64OfAddressPolicy: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 }
const LOCAL_NAT64: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'), at: 12 }
const COMPATIBLEOfAddressPolicy: Embedding = { block: ipaddr.IPv6.parseCIDR('::/96'), at: 12 }
const SIX_TO_FOUR: Embedding = { block: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 }
const EMBEDDINGS = [MAPPED, NAT64OfAddressPolicy, LOCAL_NAT64, COMPATIBLEOfAddressPolicy, SIX_TO_FOUR]

const RANGE_WORDS: Readonly<Record<string, string>> = {
  unspecified: 'unspecified',
  broadcast: 'broadcast',
  multicast: 'multicast',
  linkLocal: 'link-local',
  loopback: 'loopback',
  carrierGradeNat: 'carrier-grade NAT',
  private: 'private',
  uniqueLocal: 'unique local',
  ipv4Mapped: 'IPv4-mapped',
  '6to4': '6to4',
  teredo: 'Teredo',
}

/** CIDRs. */
export type WebhookNetworks = {
  /** May be reached although they are not public, and by plain http. */
  allowed: readonly string[]
  /** Are never reached, public ones and parts of those that are allowed included. */
  closed?: readonly string[]
}

/** @throws Error when a network is no CIDR */
export function createAddressPolicy(networks: WebhookNetworks): AddressPolicy {
  const allowed = networks.allowed.map((network) => ipaddr.parseCIDR(network))
  const closed = (networks.closed ?? []).map((network) => ipaddr.parseCIDR(network))
  return {
    allowsNetworks: allowed.length > 0,
    classify(text) {
      // Zones name an interface of this machine; the parser would also take forms that no resolver returns.
      if (isIP(text) === 0 || text.includes('%')) return { kind: 'forbidden', range: 'malformed' }
      const address = ipaddr.parse(text)
      const forms = [address, ...EMBEDDINGS.map((embedding) => embeddedAddress(address, embedding))]
      if (forms.some((one) => isWithin(one, closed)))
        return { kind: 'forbidden', range: 'closed', closed: true }
      if (isWithin(address, allowed) || isWithin(embeddedAddress(address, MAPPED), allowed))
        return { kind: 'allowed' }
      return classifyPublic(address)
    },
  }
}

function classifyPublic(address: Address): AddressDecision {
  const translated = embeddedAddress(address, NAT64OfAddressPolicy)
  if (translated) return classifyPublic(translated)
  const range = address.range()
  if (range !== 'unicast') return { kind: 'forbidden', range: RANGE_WORDS[range] ?? 'reserved' }
  if (address instanceof ipaddr.IPv6 && !address.match(GLOBAL_UNICAST)) {
    return { kind: 'forbidden', range: 'reserved' }
  }
  return { kind: 'public' }
}

function embeddedAddress(address: Address, { block, at }: Embedding): Address | undefined {
  if (!(address instanceof ipaddr.IPv6) || !address.match(block)) return undefined
  return new ipaddr.IPv4(address.toByteArray().slice(at, at + 4))
}

function isWithin(address: Address | undefined, networks: readonly [Address, number][]): boolean {
  if (!address) return false
  return networks.some((network) => network[0].kind() === address.kind() && address.match(network))
}

/** `reason` in plain words for the owner of the endpoint: what is wrong with the URL. */
export type UrlDecision = { ok: true } | { ok: false; reason: string }

/** Whether a URL may receive webhooks, as far as the URL alone tells; what its name resolves to is checked at each attempt. */
export interface UrlPolicy {
  check(url: string): UrlDecision
}

/** What a URL must be to receive webhooks (interface §2.3: an HTTPS URL). */

/** Where an attempt connects to. */
export type ConnectTarget = {
  /** Scheme, host and port: connections are shared within it. */
  origin: string
  secure: boolean
  /** Without brackets and without a dot at the end. */
  hostname: string
  port: number
  /** Path and query. */
  path: string
  /** Only addresses of allowed networks will do: plain http, and names that are never public. */
  internal: boolean
}

export type TargetDecision = { ok: true; target: ConnectTarget } | { ok: false; reason: string }

const MAX_URL_LENGTH = 2048

/** Names that public DNS does not have; a name of one label is completed by the machine's own search list. */
const INTERNAL_NAME = /^[^.]+$|(^|\.)(localhost|localdomain|local|internal|svc|home\.arpa)$/

/** A rule looks at the parsed URL only: the raw text has many spellings of one host. Undefined: nothing against it. */
type Rule = (url: URL, policy: AddressPolicy) => string | undefined

const RULES: readonly Rule[] = [
  // Nothing but web protocols.
  (url) => (/^https?:$/.test(url.protocol) ? undefined : 'the URL must start with https://'),
  // User information would be sent to the receiver and shown in the URL.
  (url) => (url.username || url.password ? 'the URL must not contain a user name or password' : undefined),
  // A fragment is never sent.
  (url) => (url.href.includes('#') ? 'the URL must not contain a fragment' : undefined),
  // Port 0 cannot be connected to.
  (url) => (url.port === '0' ? 'the port must be from 1 to 65535' : undefined),
  forbiddenAddress,
  internalName,
  plainHttp,
]

/** The operator's URL policy as the rest of Davit sees it. @throws Error when a network is no CIDR */
export function createUrlPolicy(networks: WebhookNetworks): UrlPolicy {
  const policy = createAddressPolicy(networks)
  return {
    check(url) {
      const verdict = targetOf(url, policy)
      return verdict.ok ? { ok: true } : verdict
    },
  }
}

/** The target that `text` names, or why it may not be one. */
export function targetOf(text: string, policy: AddressPolicy): TargetDecision {
  if (text.length > MAX_URL_LENGTH) return { ok: false, reason: 'the URL must have at most 2,048 characters' }
  // The parser drops tabs and line breaks and takes backslashes for slashes: such a text is not what it seems.
  if (/[\s\p{Cc}\\]/u.test(text) || !URL.canParse(text))
    return { ok: false, reason: 'the URL cannot be parsed' }
  const url = new URL(text)
  for (const rule of RULES) {
    const reason = rule(url, policy)
    if (reason !== undefined) return { ok: false, reason }
  }
  return { ok: true, target: describe(url) }
}

function describe(url: URL): ConnectTarget {
  const secure = url.protocol === 'https:'
  const hostname = hostnameOf(url)
  const host = isIP(hostname) === 6 ? `[${hostname}]` : hostname
  const port = url.port === '' ? '' : `:${url.port}`
  return {
    origin: `${url.protocol}//${host}${port}`,
    secure,
    hostname,
    port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
    path: url.pathname + url.search,
    internal: !secure || isInternalName(url),
  }
}

const WHO_ALLOWS_IT = 'only the operator of Davit can allow its network'

function forbiddenAddress(url: URL, policy: AddressPolicy): string | undefined {
  const hostname = hostnameOf(url)
  if (isIP(hostname) === 0) return undefined
  const verdict = policy.classify(hostname)
  if (verdict.kind !== 'forbidden') return undefined
  if (verdict.closed) return `the address ${hostname} is in a network that the operator of Davit has closed`
  return `the address ${hostname} is not public (${verdict.range}); ${WHO_ALLOWS_IT}`
}

function internalName(url: URL, policy: AddressPolicy): string | undefined {
  if (!isInternalName(url) || policy.allowsNetworks) return undefined
  return `the name ${url.hostname} is not public; ${WHO_ALLOWS_IT}`
}

function plainHttp(url: URL, policy: AddressPolicy): string | undefined {
  if (url.protocol === 'https:') return undefined
  const hostname = hostnameOf(url)
  const allowed = isIP(hostname) === 0 ? policy.allowsNetworks : policy.classify(hostname).kind === 'allowed'
  return allowed
    ? undefined
    : 'the URL must start with https://; plain http is only for networks that the operator allows'
}

/** A dot at the end is how cluster-internal names are written to get past the search list. */
function isInternalName(url: URL): boolean {
  const hostname = hostnameOf(url)
  return isIP(hostname) === 0 && (url.hostname.endsWith('.') || INTERNAL_NAME.test(hostname))
}

function hostnameOf(url: URL): string {
  return url.hostname.replace(/^\[|\]$|\.$/g, '')
}
