import { expect, it } from 'vitest'
import { readTarget } from './codec.ts'

it('reads name and UID, and the same again as one', () => {
  const uid = '3f1c7aa0-1111-2222-3333-000000000000'
  const target = readTarget(`orders ${uid}`)
  expect(target).toEqual({ name: 'orders', uid })
  expect(readTarget(`orders ${uid}`)).toBe(target)
})

it.each([
  '',
  'orders',
  'orders ',
  ' uid',
  'Orders uid',
  'orders u_id',
  'orders uid more',
  'orders\tuid',
  `${'o'.repeat(64)} uid`,
  `orders ${'u'.repeat(65)}`,
  'orders uid\n',
  'örders uid',
])('takes %j for none, however often', (text) => {
  expect([readTarget(text), readTarget(text)]).toEqual([undefined, undefined])
})

it('knows those that come after any number of others', () => {
  for (let number = 0; number < 20_001; number += 1) readTarget(`endpoint-${number} uid-${number}`)
  expect(readTarget('endpoint-1 uid-1')).toEqual({ name: 'endpoint-1', uid: 'uid-1' })
})
