/** What an address is to a bake: a registry may be private, and nothing is ever a link-local or metadata service. */
import ipaddr from 'ipaddr.js'

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
