import { expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { AWS_PARTITIONS, MAX_REGION } from '../../apis/aws-names.ts'
import { credentialOf, organizationPath, parameterArn, parameterName, probeName } from './names.ts'

const OF = { prefix: '/davit', organization: 'acme' }
const LONGEST = 'a'.repeat(63)

test('a parameter is under prefix and organization', () => {
  expect(organizationPath(OF)).toBe('/davit/acme')
  expect(parameterName({ ...OF, credential: 'ghcr' })).toBe('/davit/acme/rc_ghcr')
  expect(probeName(OF)).toBe('/davit/acme/rc__probe')
})

test('its name tells the credential, and no other name does', () => {
  expect(credentialOf('/davit/acme/rc_ghcr', OF)).toBe('ghcr')
  for (const name of [
    '/davit/acme/rc__probe',
    '/davit/acme/rc_',
    '/davit/acme/rc_a/b',
    '/davit/acme/rc_A',
    '/davit/acme2/rc_ghcr',
    '/davit/acme',
    '/other/davit/acme/rc_ghcr',
  ])
    expect(credentialOf(name, OF), name).toBeUndefined()
})

test.each(['a/b', '../b', '', 'A', 'a*', 'a.b', `${LONGEST}a`])('%j is the name of nothing', (name) => {
  expect(() => parameterName({ ...OF, credential: name })).toThrow(RangeError)
  expect(() => parameterName({ ...OF, organization: name, credential: 'a' })).toThrow(RangeError)
})

test('the longest names fit with the ARN around them, and in depth', () => {
  const prefix = `${'/a'.repeat(7)}/${'a'.repeat(85)}`
  expect(prefix).toHaveLength(100)
  const name = parameterName({ prefix, organization: LONGEST, credential: LONGEST })
  for (const { name: partition } of AWS_PARTITIONS) {
    const arn = parameterArn({ partition, region: 'a'.repeat(MAX_REGION), account: '123456789012' }, name)
    expect(arn.length).toBeLessThanOrEqual(1011)
  }
  expect(name.split('/').length - 1).toBeLessThanOrEqual(15)
})

test('no two organizations share a name, nor is one under the other', () => {
  const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,5}[a-z0-9])?$/)
  fc.assert(
    fc.property(label, label, label, label, (organization, other, credential, second) => {
      fc.pre(organization !== other)
      const a = parameterName({ ...OF, organization, credential })
      const b = parameterName({ ...OF, organization: other, credential: second })
      expect(a).not.toBe(b)
      expect(b.startsWith(`${organizationPath({ ...OF, organization })}/`)).toBe(false)
      expect(credentialOf(b, { ...OF, organization })).toBeUndefined()
    }),
  )
})
