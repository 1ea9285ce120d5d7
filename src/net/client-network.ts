import { isIP } from 'node:net'
import ipaddr from 'ipaddr.js'

/** What a client that can choose its address cannot leave: an IPv4 address, or the /64 of an IPv6 one. Empty without an address. */
export function clientNetwork(address: string | undefined): string {
  if (address === undefined || isIP(address) === 0) return ''
  const parsed = ipaddr.process(address)
  return parsed instanceof ipaddr.IPv6 ? `${parsed.parts.slice(0, 4).join(':')}/64` : parsed.toString()
}
