import { describe, expect, test } from 'vitest'
import { AWS_PARTITIONS } from '../../apis/aws-names.ts'
import { parseRoleArn, principalOf, roleArnParts } from './names.ts'

describe('the ARN of a role', () => {
  test.each(AWS_PARTITIONS)('is known in $name', ({ name: partition }) => {
    expect(parseRoleArn(`arn:${partition}:iam::123456789012:role/davit`)).toEqual({
      partition,
      account: '123456789012',
      path: '/',
      name: 'davit',
    })
  })

  test('has a path', () => {
    expect(parseRoleArn('arn:aws:iam::123456789012:role/teams/a.b/davit+1')).toMatchObject({
      path: '/teams/a.b/',
      name: 'davit+1',
    })
  })

  test.each([
    'arn:aws:iam::123456789012:user/davit',
    'arn:aws:sts::123456789012:assumed-role/davit/session',
    'arn:aws:iam:eu-west-1:123456789012:role/davit',
    'arn:aws:iam::12345678901:role/davit',
    'arn:aws:iam::*:role/davit',
    'arn:other:iam::123456789012:role/davit',
    'arn:aws:iam::123456789012:role/',
    'arn:aws:iam::123456789012:role//davit',
    `arn:aws:iam::123456789012:role/${'a'.repeat(65)}`,
    'arn:aws:iam::123456789012:role/davit\n',
  ])('%s is none', (arn) => {
    expect(parseRoleArn(arn)).toBeUndefined()
    expect(() => roleArnParts(arn)).toThrow(RangeError)
  })
})

describe('what a trust policy names', () => {
  test.each([
    ['arn:aws:sts::123456789012:assumed-role/davit/1700000000', 'arn:aws:iam::123456789012:role/davit'],
    ['arn:aws-cn:sts::123456789012:assumed-role/davit/i-1', 'arn:aws-cn:iam::123456789012:role/davit'],
    ['arn:aws:iam::123456789012:user/davit', 'arn:aws:iam::123456789012:user/davit'],
    ['arn:aws:iam::123456789012:role/ops/davit', 'arn:aws:iam::123456789012:role/ops/davit'],
  ])('for %s is %s', (caller, want) => {
    expect(principalOf(caller)).toBe(want)
  })
})
