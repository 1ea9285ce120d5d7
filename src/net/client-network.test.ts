import { expect, test } from 'vitest'
import { clientNetwork } from './client-network.ts'

test.each([
  { of: ['192.0.2.1', '::ffff:192.0.2.1'], not: '192.0.2.2' },
  { of: ['2001:db8::1', '2001:db8:0:0:ffff::2'], not: '2001:db8:0:1::1' },
  { of: ['fe80::1%eth0', 'fe80::2%eth0'], not: '::1' },
  { of: [undefined, 'none'], not: '0.0.0.0' },
])('$of are the same client, and $not is another', ({ of: [one, same], not }) => {
  expect(clientNetwork(one)).toBe(clientNetwork(same))
  expect(clientNetwork(one)).not.toBe(clientNetwork(not))
})
