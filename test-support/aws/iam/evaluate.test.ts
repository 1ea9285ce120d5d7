import { describe, expect, it } from 'vitest'
import { effectOfRow, PARAMETER_ARN, type PolicyRow, PUT } from '../../../test/support/aws/policy-rows.ts'

const on = (Resource: unknown) => ({ ...PUT, Resource })
const org = 'aws:PrincipalTag/davit.dev/organization'

const STATEMENTS: readonly PolicyRow[] = [
  { name: 'nothing said', given: [], want: 'none' },
  { name: 'the action', given: PUT, want: 'allow' },
  { name: 'another action', given: PUT, action: 'ssm:GetParameter', want: 'none' },
  { name: 'an action in other letters', given: { ...PUT, Action: 'SSM:putparameter' }, want: 'allow' },
  { name: 'a wildcard of actions', given: { ...PUT, Action: 'ssm:Put*' }, want: 'allow' },
  { name: 'a question mark', given: { ...PUT, Action: 'ssm:?utParameter' }, want: 'allow' },
  { name: 'a wildcard that ends too early', given: { ...PUT, Action: 'ssm:*Parameters' }, want: 'none' },
  { name: 'one of several actions', given: { ...PUT, Action: ['kms:*', 'ssm:PutParameter'] }, want: 'allow' },
  {
    name: 'all but another action',
    given: { Effect: 'Allow', NotAction: 'ssm:Get*', Resource: '*' },
    want: 'allow',
  },
  {
    name: 'all but this action',
    given: { Effect: 'Allow', NotAction: 'ssm:Put*', Resource: '*' },
    want: 'none',
  },
  { name: 'a deny after an allow', given: [PUT, { ...PUT, Effect: 'Deny' }], want: 'deny' },
  { name: 'a deny before an allow', given: [{ ...PUT, Effect: 'Deny' }, PUT], want: 'deny' },
  {
    name: 'a deny of the family of reads',
    given: [
      { ...PUT, Action: '*' },
      { Effect: 'Deny', Action: 'ssm:GetParameter*', Resource: '*' },
    ],
    action: 'ssm:GetParametersByPath',
    want: 'deny',
  },
  {
    name: 'a deny of everything but this',
    given: [PUT, { Effect: 'Deny', NotAction: 'ssm:*', Resource: '*' }],
    want: 'allow',
  },
]

const RESOURCES: readonly PolicyRow[] = [
  { name: 'the resource', given: on(PARAMETER_ARN), want: 'allow' },
  { name: 'another resource', given: on(`${PARAMETER_ARN}y`), want: 'none' },
  { name: 'a resource in other letters', given: on(PARAMETER_ARN.replace('acme', 'Acme')), want: 'none' },
  {
    name: 'a wildcard over slashes',
    given: on('arn:aws:ssm:*:222222222222:parameter/davit/*'),
    want: 'allow',
  },
  { name: 'the prefix of another', given: on('arn:aws:ssm:*:*:parameter/davit/acm/*'), want: 'none' },
  {
    name: 'a wildcard that would reach over a colon',
    given: on('arn:aws:ssm:*:parameter/davit/acme/rc_x'),
    want: 'none',
  },
  { name: 'an ARN that leaves parts out', given: on('arn:aws:ssm:*'), want: 'allow' },
  { name: 'another account', given: on(PARAMETER_ARN.replace('222222222222', '333333333333')), want: 'none' },
  { name: 'another partition', given: on(PARAMETER_ARN.replace('arn:aws:', 'arn:aws-cn:')), want: 'none' },
  {
    name: 'all but another resource',
    given: { Effect: 'Allow', Action: '*', NotResource: `${PARAMETER_ARN}y` },
    want: 'allow',
  },
  {
    name: 'all but this resource',
    given: { Effect: 'Allow', Action: '*', NotResource: PARAMETER_ARN },
    want: 'none',
  },
  {
    name: 'a listing, which has no resource of its own',
    given: { Effect: 'Allow', Action: 'ssm:DescribeParameters', Resource: 'arn:aws:ssm:*:*:parameter/*' },
    action: 'ssm:DescribeParameters',
    resource: 'arn:aws:ssm:eu-central-1:222222222222:*',
    want: 'none',
  },
  {
    name: 'a variable',
    given: on(`arn:aws:ssm:*:*:parameter/davit/\${${org}}/*`),
    context: { [org]: 'acme' },
    want: 'allow',
  },
  {
    name: 'a variable of another',
    given: on(`arn:aws:ssm:*:*:parameter/davit/\${${org}}/*`),
    context: { [org]: 'acm' },
    want: 'none',
  },
  {
    name: 'a variable without a value',
    given: on(`arn:aws:ssm:*:*:parameter/davit/\${${org}}/*`),
    want: 'none',
  },
  {
    name: 'a wildcard in a variable',
    given: on(`arn:aws:ssm:*:*:parameter/davit/\${${org}}/*`),
    context: { [org]: '*' },
    want: 'none',
  },
  {
    name: 'a variable in a policy of 2008, which is text',
    version: '2008-10-17',
    given: on(`arn:aws:ssm:*:*:parameter/davit/\${${org}}/*`),
    context: { [org]: 'acme' },
    want: 'none',
  },
  { name: 'an escaped star', given: on('arn:aws:ssm:*:*:parameter/davit/$' + '{*}/rc_x'), want: 'none' },
]

describe('a policy', () => {
  for (const row of [...STATEMENTS, ...RESOURCES])
    it(`with ${row.name}: ${row.want}`, () => expect(effectOfRow(row)).toBe(row.want))
})
