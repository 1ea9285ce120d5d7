/** What a URL must be to receive webhooks (interface §2.3: an HTTPS URL). */
import { isIP } from 'node:net'
import { type AddressPolicy, createAddressPolicy, type WebhookNetworks } from './address-policy.ts'
import type { UrlPolicy } from './url-guard.ts'

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
