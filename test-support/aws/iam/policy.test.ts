import { describe, expect, it } from 'vitest'
import { PUT } from '../../../test/support/aws/policy-rows.ts'
import { Context } from './context.ts'
import { parsePolicy } from './policy.ts'

const when = (Condition: Record<string, unknown>) => ({ ...PUT, Condition })
const on = (Resource: unknown) => ({ ...PUT, Resource })

const REFUSED = [
  { name: 'no JSON', given: '{', want: 'invalid Json' },
  { name: 'another version', given: { Version: '2020-01-01', Statement: PUT }, want: 'version' },
  {
    name: 'an element that there is not',
    given: { Statement: { ...PUT, Actions: 'x' } },
    want: 'Syntax errors',
  },
  {
    name: 'both kinds of action',
    given: { Statement: { ...PUT, NotAction: 'ssm:*' } },
    want: 'Syntax errors',
  },
  { name: 'no resource', given: { Statement: { Effect: 'Allow', Action: '*' } }, want: 'Syntax errors' },
  {
    name: 'an action without its service',
    given: { Statement: { ...PUT, Action: 'PutParameter' } },
    want: 'vendor',
  },
  { name: 'a resource that is no ARN', given: { Statement: on('parameter/x') }, want: 'ARN format' },
  {
    name: 'a principal where there is none',
    given: { Statement: { ...PUT, Principal: '*' } },
    want: 'principal',
  },
  {
    name: 'one name for two statements',
    given: {
      Statement: [
        { ...PUT, Sid: 'a' },
        { ...PUT, Sid: 'a' },
      ],
    },
    want: 'unique',
  },
  { name: 'a name with a dash', given: { Statement: { ...PUT, Sid: 'a-b' } }, want: 'alpha-numeric' },
  {
    name: 'an operator that the double has not',
    given: { Statement: when({ IpAddress: { 'aws:SourceIp': '1' } }) },
    want: 'the condition operator IpAddress',
  },
  {
    name: 'a key that the double has not',
    given: { Statement: when({ StringEquals: { 'aws:SourceVpc': 'x' } }) },
    want: 'the condition key aws:SourceVpc',
  },
  {
    name: 'a set without a quantifier',
    given: { Statement: when({ StringEquals: { 'aws:TagKeys': 'x' } }) },
    want: 'several values',
  },
  {
    name: 'a variable that the double has not',
    given: { Version: '2012-10-17', Statement: on('arn:aws:ssm:*:*:parameter/$' + '{aws:SourceVpc}') },
    want: 'aws:SourceVpc',
  },
] as const

describe('what is no policy', () => {
  for (const { name, given, want } of REFUSED)
    it(`is refused: ${name}`, () => expect(() => parsePolicy(given, 'identity')).toThrow(want))

  it('is not taken for silence: a context has no key that the double does not know', () => {
    expect(() => new Context().set('aws:SourceVpc', 'x')).toThrow('the condition key aws:SourceVpc')
  })
})
