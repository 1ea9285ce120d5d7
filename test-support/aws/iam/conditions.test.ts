import { describe, expect, it } from 'vitest'
import { effectOfRow, type PolicyRow, PUT } from '../../../test/support/aws/policy-rows.ts'

const when = (Condition: Record<string, unknown>) => ({ ...PUT, Condition })
const org = 'aws:PrincipalTag/davit.dev/organization'

const CONDITIONS: readonly PolicyRow[] = [
  {
    name: 'StringEquals',
    given: when({ StringEquals: { [org]: 'acme' } }),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'StringEquals in other letters',
    given: when({ StringEquals: { [org]: 'ACME' } }),
    context: { [org]: 'acme' },
    want: 'none',
  },
  {
    name: 'StringEqualsIgnoreCase',
    given: when({ StringEqualsIgnoreCase: { [org]: 'ACME' } }),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'one of several values',
    given: when({ StringEquals: { [org]: ['b', 'acme'] } }),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  { name: 'a key without a value', given: when({ StringEquals: { [org]: 'acme' } }), want: 'none' },
  {
    name: 'a key in other letters',
    given: when({ StringEquals: { 'AWS:PRINCIPALTAG/Davit.dev/organization': 'acme' } }),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'IfExists without a value',
    given: when({ StringEqualsIfExists: { [org]: 'acme' } }),
    want: 'allow',
  },
  {
    name: 'IfExists with another value',
    given: when({ StringEqualsIfExists: { [org]: 'acme' } }),
    context: { [org]: 'b' },
    want: 'none',
  },
  {
    name: 'StringNotEquals',
    given: when({ StringNotEquals: { [org]: 'b' } }),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'StringNotEquals of one of several',
    given: when({ StringNotEquals: { [org]: ['b', 'acme'] } }),
    context: { [org]: 'acme' },
    want: 'none',
  },
  {
    name: 'StringNotEquals without a value',
    given: when({ StringNotEquals: { [org]: 'b' } }),
    want: 'allow',
  },
  {
    name: 'StringLike',
    given: when({ StringLike: { 'kms:ViaService': 'ssm.*.amazonaws.com' } }),
    context: { 'kms:ViaService': 'ssm.eu-central-1.amazonaws.com' },
    want: 'allow',
  },
  {
    name: 'StringEquals with a star, which is a star',
    given: when({ StringEquals: { [org]: 'ac*' } }),
    context: { [org]: 'acme' },
    want: 'none',
  },
  {
    name: 'StringNotLike',
    given: when({ StringNotLike: { [org]: 'ac*' } }),
    context: { [org]: 'acme' },
    want: 'none',
  },
  {
    name: 'ArnLike',
    given: when({ ArnLike: { 'aws:PrincipalArn': 'arn:aws:iam::*:role/davit-*' } }),
    context: { 'aws:PrincipalArn': 'arn:aws:iam::1:role/davit-x' },
    want: 'allow',
  },
  {
    name: 'ArnEquals, which has wildcards too',
    given: when({ ArnEquals: { 'aws:PrincipalArn': 'arn:aws:iam::1:role/*' } }),
    context: { 'aws:PrincipalArn': 'arn:aws:iam::1:role/davit-x' },
    want: 'allow',
  },
  {
    name: 'ArnNotLike',
    given: when({ ArnNotLike: { 'aws:PrincipalArn': 'arn:aws:iam::1:role/*' } }),
    context: { 'aws:PrincipalArn': 'arn:aws:iam::1:role/davit-x' },
    want: 'none',
  },
  {
    name: 'Bool',
    given: when({ Bool: { 'ssm:Overwrite': false } }),
    context: { 'ssm:Overwrite': 'false' },
    want: 'allow',
  },
  {
    name: 'Bool of the other',
    given: when({ Bool: { 'ssm:Overwrite': 'true' } }),
    context: { 'ssm:Overwrite': 'false' },
    want: 'none',
  },
  { name: 'Null of what is absent', given: when({ Null: { [org]: 'true' } }), want: 'allow' },
  {
    name: 'Null of what is there',
    given: when({ Null: { [org]: 'true' } }),
    context: { [org]: 'acme' },
    want: 'none',
  },
  { name: 'not Null', given: when({ Null: { [org]: 'false' } }), context: { [org]: 'acme' }, want: 'allow' },
  {
    name: 'DateLessThan',
    given: when({ DateLessThan: { 'aws:TokenIssueTime': '2026-01-02T00:00:00Z' } }),
    context: { 'aws:TokenIssueTime': '2026-01-01T00:00:00.000Z' },
    want: 'allow',
  },
  {
    name: 'NumericGreaterThan',
    given: when({ NumericGreaterThan: { 'aws:EpochTime': '10' } }),
    context: { 'aws:EpochTime': '9' },
    want: 'none',
  },
  {
    name: 'ForAllValues of a few',
    given: when({ 'ForAllValues:StringEquals': { 'aws:TagKeys': ['a', 'b'] } }),
    context: { 'aws:TagKeys': ['b'] },
    want: 'allow',
  },
  {
    name: 'ForAllValues with one more',
    given: when({ 'ForAllValues:StringEquals': { 'aws:TagKeys': ['a', 'b'] } }),
    context: { 'aws:TagKeys': ['b', 'c'] },
    want: 'none',
  },
  {
    name: 'ForAllValues of nothing',
    given: when({ 'ForAllValues:StringEquals': { 'aws:TagKeys': ['a'] } }),
    want: 'allow',
  },
  {
    name: 'ForAnyValue of one',
    given: when({ 'ForAnyValue:StringEquals': { 'aws:TagKeys': ['a'] } }),
    context: { 'aws:TagKeys': ['c', 'a'] },
    want: 'allow',
  },
  {
    name: 'ForAnyValue of none',
    given: when({ 'ForAnyValue:StringEquals': { 'aws:TagKeys': ['a'] } }),
    context: { 'aws:TagKeys': ['c'] },
    want: 'none',
  },
  {
    name: 'ForAnyValue of nothing',
    given: when({ 'ForAnyValue:StringLike': { 'aws:TagKeys': ['*'] } }),
    want: 'none',
  },
  {
    name: 'ForAnyValue of not one, of nothing',
    given: when({ 'ForAnyValue:StringNotEquals': { 'aws:TagKeys': ['a'] } }),
    want: 'none',
  },
  {
    name: 'ForAnyValue of not one',
    given: when({ 'ForAnyValue:StringNotEquals': { 'aws:TagKeys': ['a'] } }),
    context: { 'aws:TagKeys': ['a', 'c'] },
    want: 'allow',
  },
  {
    name: 'two operators of which one fails',
    given: when({ StringEquals: { [org]: 'acme' }, Bool: { 'ssm:Overwrite': 'true' } }),
    context: { [org]: 'acme', 'ssm:Overwrite': 'false' },
    want: 'none',
  },
  {
    name: 'two keys of which one fails',
    given: when({ StringEquals: { [org]: 'acme', 'aws:PrincipalAccount': '1' } }),
    context: { [org]: 'acme', 'aws:PrincipalAccount': '2' },
    want: 'none',
  },
  {
    name: 'a variable in a value',
    given: when({ StringEquals: { 'aws:ResourceTag/owner': `\${${org}}` } }),
    context: { 'aws:ResourceTag/owner': 'acme', [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'a variable whose value is a star',
    given: when({ StringEquals: { 'aws:ResourceTag/owner': `\${${org}}` } }),
    context: { 'aws:ResourceTag/owner': '*', [org]: '*' },
    want: 'allow',
  },
  {
    name: 'a deny whose condition fails',
    given: [PUT, { ...when({ Bool: { 'ssm:Overwrite': 'true' } }), Effect: 'Deny' }],
    context: { 'ssm:Overwrite': 'false' },
    want: 'allow',
  },
]

describe('a condition', () => {
  for (const row of CONDITIONS)
    it(`with ${row.name}: ${row.want}`, () => expect(effectOfRow(row)).toBe(row.want))
})
