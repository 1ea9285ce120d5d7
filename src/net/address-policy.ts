/** Which addresses webhooks may reach: public ones, and those of the networks that the operator allows, but none that the operator has closed. */
import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

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
const NAT64: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b::/96'), at: 12 }
const LOCAL_NAT64: Embedding = { block: ipaddr.IPv6.parseCIDR('64:ff9b:1::/48'), at: 12 }
const COMPATIBLE: Embedding = { block: ipaddr.IPv6.parseCIDR('::/96'), at: 12 }
const SIX_TO_FOUR: Embedding = { block: ipaddr.IPv6.parseCIDR('2002::/16'), at: 2 }
const EMBEDDINGS = [MAPPED, NAT64, LOCAL_NAT64, COMPATIBLE, SIX_TO_FOUR]

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
  const translated = embeddedAddress(address, NAT64)
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
