import { describe, expect, it } from 'vitest'
import { addressClass } from './egress-policy.ts'

const TABLE = [
  {
    want: 'public',
    given: ['140.82.112.33', '2606:50c0:8000::153', '::ffff:140.82.112.33', '64:ff9b::8c52:7021'],
  },
  {
    want: 'private',
    given: ['10.0.0.1', '172.16.0.1', '192.168.1.1', 'fd12::1', '100.64.0.1', '::ffff:10.0.0.1'],
  },
  { want: 'loopback', given: ['127.0.0.1', '127.8.9.10', '::1', '::ffff:127.0.0.1'] },
  {
    want: 'never',
    given: [
      '169.254.169.254',
      '169.254.170.2',
      '169.254.170.23',
      'fe80::1',
      '::ffff:169.254.169.254',
      '64:ff9b::a9fe:a9fe',
      '::a9fe:a9fe',
      'fd00:ec2::254',
      'fd00:ec2::23',
      'fd20:ce::254',
      '100.100.100.200',
      '168.63.129.16',
      '::ffff:168.63.129.16',
      '0.0.0.0',
      '255.255.255.255',
      '224.0.0.1',
      '240.0.0.1',
      'fe80::1%eth0',
      'ff02::1',
      'registry.test',
      '',
    ],
  },
] as const

describe('an address', () => {
  for (const { want, given } of TABLE)
    for (const address of given)
      it(`such as ${address || 'none'} is ${want}`, () => expect(addressClass(address)).toBe(want))
})
