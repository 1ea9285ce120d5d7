/** Addresses that no webhook may reach, in every form in which they could be written. */
import type { SeededRandom } from '../chaos/seeded-random.ts'

/** Network and length of its prefix. */
const IPV4: readonly [string, number][] = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 4],
  ['240.0.0.0', 4],
]

/** Metadata services of clouds. */
const METADATA = ['169.254.169.254', '169.254.170.2', '169.254.170.23', '100.100.100.200']

/** The first groups of each network, its well-known address, and one deep inside. */
const IPV6 = [
  '::',
  '::1',
  '::2',
  '::808:808',
  '::ffff:0:7f00:1',
  '64:ff9b:1::1',
  '64:ff9b:1:ffff::808:808',
  '100::1',
  '100::ffff:1',
  '2001::1',
  '2001:0:7f00:1::',
  '2001:10::1',
  '2001:1ff:ffff::1',
  '2001:db8::1',
  '2001:db8:ffff:ffff::1',
  '2002::1',
  '2002:7f00:1::',
  '2002:a9fe:a9fe::1',
  '3fff::1',
  '3fff:fff:ffff::1',
  '5f00::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fdff:ffff::1',
  'fe80::1',
  'febf:ffff::1',
  'fec0::1',
  'feff:ffff::1',
  'ff00::1',
  'ff02::1',
  'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
]

/** First, last and a random address of each network, and those of metadata services. */
export function forbiddenIpv4(random: SeededRandom): string[] {
  const inside = IPV4.flatMap(([network, prefix]) => {
    const first = numberOf(network)
    const size = 2 ** (32 - prefix)
    return [first, first + 1, first + Math.floor(random.fraction() * size), first + size - 1].map(dotted)
  })
  return [...new Set([...inside, ...METADATA])]
}

export function forbiddenIpv6(): readonly string[] {
  return IPV6
}

/** Hosts of a URL that a parser, a resolver or a dialer may interpret as that address. */
export function ipv4Hosts(address: string): string[] {
  const value = numberOf(address)
  const [a = 0, b = 0, c = 0, d = 0] = address.split('.').map(Number)
  const hex = (n: number) => n.toString(16)
  const groups = `${hex((a << 8) | b)}:${hex((c << 8) | d)}`
  return [
    address,
    `${address}.`,
    String(value),
    `0x${hex(value)}`,
    `0X${hex(value).toUpperCase()}`,
    `0${value.toString(8)}`,
    [a, b, c, d].map((part) => `0x${hex(part)}`).join('.'),
    [a, b, c, d].map((part) => `0${part.toString(8)}`).join('.'),
    `${a}.${b}.${(c << 8) | d}`,
    `${a}.${(b << 16) | (c << 8) | d}`,
    `0x${hex(a)}.${b}.0${c.toString(8)}.${d}`,
    fullWidth(address),
    address.replaceAll('.', '。'),
    percent(address),
    `[::ffff:${address}]`,
    `[::ffff:${groups}]`,
    `[0:0:0:0:0:FFFF:${groups.toUpperCase()}]`,
    `[::${address}]`,
    `[::ffff:0:${address}]`,
    `[64:ff9b::${address}]`,
    `[64:ff9b::${groups}]`,
    `[64:ff9b:1::${address}]`,
    `[2002:${groups}::1]`,
    `[2001:0:${groups}::1]`,
  ]
}

export function ipv6Hosts(address: string): string[] {
  const groups = expanded(address)
  return [
    `[${address}]`,
    `[${address.toUpperCase()}]`,
    `[${groups.map((group) => group.padStart(4, '0')).join(':')}]`,
    `[${groups.join(':')}]`,
  ]
}

/** URLs whose host is not what it seems to be. */
export function trickyUrls(address: string): string[] {
  return [
    `https://hooks.example.com@${address}/`,
    `https://hooks.example.com%00@${address}/`,
    `https://hooks.example.com\\@${address}/`,
    `https://${address}\\@hooks.example.com/`,
    `https://${address}#@hooks.example.com/`,
    `https://${address}?@hooks.example.com/`,
    `https:\\\\${address}/`,
    `https:/${address}/`,
    `https:${address}/`,
    `  https://${address}/`,
    `https://${address}\t/`,
    `https://${address.slice(0, 3)}\n${address.slice(3)}/`,
    `HTTPS://${address}:443/`,
    `https://${address}:0443/`,
    `//${address}/`,
  ]
}

function numberOf(address: string): number {
  return address.split('.').reduce((value, part) => value * 256 + Number(part), 0)
}

function dotted(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join('.')
}

function fullWidth(text: string): string {
  return text.replaceAll(/\d/g, (digit) => String.fromCodePoint(0xff10 + Number(digit)))
}

function percent(text: string): string {
  return text.replaceAll(/\d/g, (digit) => `%3${digit}`)
}

function expanded(address: string): string[] {
  const [head = '', tail] = address.split('::')
  const left = head === '' ? [] : head.split(':')
  if (tail === undefined) return left
  const right = tail === '' ? [] : tail.split(':')
  return [...left, ...Array.from({ length: 8 - left.length - right.length }, () => '0'), ...right]
}
