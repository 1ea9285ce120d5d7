import { expect, test } from 'vitest'
import { createAddressPolicy } from './egress-policy.ts'

const none = createAddressPolicy({ allowed: [] })

const FORBIDDEN = [
  // IPv4
  '0.0.0.0',
  '0.1.2.3',
  '10.0.0.1',
  '10.255.255.255',
  '100.64.0.1',
  '100.127.255.255',
  '127.0.0.1',
  '127.255.0.1',
  '169.254.169.254',
  '169.254.170.2',
  '169.254.170.23',
  '172.16.0.1',
  '172.31.255.255',
  '192.0.0.1',
  '192.0.2.1',
  '192.88.99.1',
  '192.168.0.1',
  '198.18.0.1',
  '198.19.255.255',
  '198.51.100.1',
  '203.0.113.1',
  '224.0.0.1',
  '239.255.255.255',
  '240.0.0.1',
  '255.255.255.255',
  // IPv6
  '::',
  '::1',
  '::2',
  '::7f00:1',
  '::127.0.0.1',
  '::8.8.8.8',
  '::ffff:127.0.0.1',
  '::ffff:10.0.0.1',
  '::ffff:8.8.8.8',
  '::ffff:0:127.0.0.1',
  '64:ff9b::7f00:1',
  '64:ff9b::127.0.0.1',
  '64:ff9b::a9fe:a9fe',
  '64:ff9b:1::8.8.8.8',
  '100::1',
  '2001::1',
  '2001:0:7f00:1::',
  '2001:2::1',
  '2001:10::1',
  '2001:20::1',
  '2001:db8::1',
  '2002:7f00:1::',
  '2002:808:808::1',
  '3fff::1',
  '4000::1',
  '5f00::1',
  'fc00::1',
  'fd00:ec2::254',
  'fd00:ec2::23',
  'fe80::1',
  'fe80::1%lo',
  'febf::1',
  'fec0::1',
  'feff::1',
  'ff00::1',
  'ff02::1',
  // Azure's metadata service, at an address that looks like any other
  '168.63.129.16',
  '::ffff:168.63.129.16',
  '64:ff9b::168.63.129.16',
  // No addresses
  '',
  'localhost',
  '127.1',
  '0x7f000001',
  '2130706433',
  '0177.0.0.1',
  '[::1]',
  '8.8.8.8 ',
  '8.8.8.8/32',
]

test.each(FORBIDDEN)('%s is forbidden', (address) => {
  expect(none.classify(address)).toMatchObject({ kind: 'forbidden', range: expect.stringMatching(/./) })
})

test.each([
  '1.1.1.1',
  '8.8.8.8',
  '9.255.255.255',
  '11.0.0.0',
  '100.63.255.255',
  '100.128.0.0',
  '126.255.255.255',
  '128.0.0.1',
  '169.253.255.255',
  '172.15.255.255',
  '172.32.0.0',
  '192.167.255.255',
  '192.169.0.0',
  '198.17.255.255',
  '198.20.0.0',
  '223.255.255.255',
  '2606:4700:4700::1111',
  '2a00:1450:4001:81b::200e',
  '64:ff9b::8.8.8.8',
  '64:ff9b::808:808',
])('%s is public', (address) => {
  expect(none.classify(address)).toEqual({ kind: 'public' })
})

test.each([
  { networks: ['127.0.0.0/8'], address: '127.0.0.1', want: 'allowed' },
  { networks: ['127.0.0.0/8'], address: '::ffff:127.0.0.1', want: 'allowed' },
  { networks: ['127.0.0.0/8'], address: '::1', want: 'forbidden' },
  { networks: ['127.0.0.0/8'], address: '64:ff9b::127.0.0.1', want: 'forbidden' },
  { networks: ['127.0.0.0/8'], address: '10.0.0.1', want: 'forbidden' },
  { networks: ['::1/128', '10.1.0.0/16'], address: '::1', want: 'allowed' },
  { networks: ['::1/128', '10.1.0.0/16'], address: '10.1.255.255', want: 'allowed' },
  { networks: ['::1/128', '10.1.0.0/16'], address: '10.2.0.0', want: 'forbidden' },
  { networks: ['8.8.8.8/32'], address: '8.8.8.8', want: 'allowed' },
  { networks: ['8.8.8.8/32'], address: '8.8.4.4', want: 'public' },
  { networks: ['fd00::/8'], address: 'fd00:ec2::254', want: 'allowed' },
  { networks: ['0.0.0.0/0'], address: '169.254.169.254', want: 'allowed' },
])('with $networks allowed, $address is $want', ({ networks, address, want }) => {
  expect(createAddressPolicy({ allowed: networks }).classify(address).kind).toBe(want)
})

test.each([
  { address: '203.0.114.7', want: 'forbidden' },
  { address: '203.0.114.8', want: 'public' },
  { address: '::ffff:203.0.114.7', want: 'forbidden' },
  { address: '64:ff9b::203.0.114.7', want: 'forbidden' },
  { address: '64:ff9b::203.0.114.8', want: 'public' },
  { address: '10.96.0.1', want: 'forbidden' },
  { address: '::ffff:10.96.0.1', want: 'forbidden' },
  { address: '10.95.255.255', want: 'allowed' },
  { address: '2606:4700:4700::1111', want: 'forbidden' },
  { address: '2606:4700:4701::1111', want: 'public' },
])('where the operator has closed its network, $address is $want', ({ address, want }) => {
  const denied = ['203.0.114.7/32', '10.96.0.0/12', '2606:4700:4700::/48']
  expect(createAddressPolicy({ allowed: ['10.0.0.0/8'], denied }).classify(address).kind).toBe(want)
})

test.each([
  '::203.0.114.7',
  '64:ff9b:1::203.0.114.7',
  '2002:cb00:7207::1',
  '::ffff:203.0.114.7',
  '64:ff9b::cb00:7207',
])('a closed address of IPv4 is closed as %s, whatever is allowed', (address) => {
  const policy = createAddressPolicy({ allowed: ['::/0'], denied: ['203.0.114.7/32'] })
  expect(policy.classify(address).kind).toBe('forbidden')
  expect(policy.classify(address.replace('203.0.114.7', '203.0.114.8').replace('7207', '7208')).kind).toBe(
    'allowed',
  )
})

test('a network that is no CIDR is an error', () => {
  expect(() => createAddressPolicy({ allowed: [], denied: ['10.0.0.0'] })).toThrow()
  expect(() => createAddressPolicy({ allowed: ['10.0.0.0'] })).toThrow()
})
