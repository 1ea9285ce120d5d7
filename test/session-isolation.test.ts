/** Whatever organizations are called, the policy of a session reaches nothing of another one: judged as IAM judges. */

import { expect, test } from 'vitest'
import { AWS_PARTITIONS } from '../src/apis/aws-names.ts'
import {
  type AwsScope,
  organizationPath,
  parameterArn,
  parameterName,
  probeName,
} from '../src/credentials/aws/names.ts'
import { sessionPolicy } from '../src/credentials/aws/policies.ts'
import { Context } from '../test-support/aws/iam/context.ts'
import { evaluate } from '../test-support/aws/iam/evaluate.ts'
import { parsePolicy } from '../test-support/aws/iam/policy.ts'
import { fc } from './support/fast-check.ts'

const ACCOUNT = '123456789012'
const ACTIONS = [
  'PutParameter',
  'DeleteParameter',
  'DeleteParameters',
  'AddTagsToResource',
  'RemoveTagsFromResource',
  'ListTagsForResource',
  'LabelParameterVersion',
  'GetParameter',
  'GetParameters',
  'GetParameterHistory',
  'GetParametersByPath',
].map((name) => `ssm:${name}`)

const label = fc.oneof(
  fc.constantFrom(
    'a',
    'acme',
    'acme-x',
    'rc-x',
    'rc',
    'davit',
    'davit-probe',
    'default',
    '0',
    'x'.repeat(63),
  ),
  fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
)
/** Names that are one another's beginnings and ends among them. */
const pair = fc
  .oneof(
    fc.tuple(label, label),
    fc
      .tuple(label, fc.stringMatching(/^-?[a-z0-9]{1,4}$/))
      .map(([a, end]) => [a, (a + end).slice(0, 63)] as const),
    fc
      .tuple(label, fc.stringMatching(/^[a-z0-9]{1,4}-?$/))
      .map(([a, begin]) => [a, (begin + a).slice(0, 63)] as const),
  )
  .filter(([a, b]) => a !== b && /[a-z0-9]$/.test(b) && /^[a-z0-9]/.test(b))
const scope = fc.record({
  organizations: pair,
  isTurned: fc.boolean(),
  credential: label,
  prefix: fc.constantFrom('/davit', '/a', '/acme', '/acme/davit', `/${'p'.repeat(99)}`, '/rc_x/y.z_'),
  partition: fc.constantFrom(...AWS_PARTITIONS),
  purpose: fc.constantFrom('write' as const, 'probe' as const),
  kmsKeyId: fc.constantFrom(undefined, 'alias/x', '1234abcd-12ab-34cd-56ef-1234567890ab'),
})
type Scope = typeof scope extends fc.Arbitrary<infer T> ? T : never

function sessionOf({ organizations, isTurned, prefix, partition, purpose, kmsKeyId }: Scope) {
  const [own, other] = isTurned ? [...organizations].reverse() : organizations
  const region = `${partition.regions}east-1`
  const roleArn = `arn:${partition.name}:iam::${ACCOUNT}:role/shared`
  const of = { organization: own ?? '', roleArn, region, kmsKeyId }
  const policy = parsePolicy(JSON.stringify(sessionPolicy(of, prefix, purpose)), 'session')
  const place: AwsScope = { partition: partition.name, region, account: ACCOUNT }
  const may = (action: string, name: string) =>
    evaluate([policy], { action, resource: parameterArn(place, name), context: new Context() }) === 'allow'
  return { own: own ?? '', other: other ?? '', may }
}

test('a session reaches no parameter of another organization, with the same role, account and region', () => {
  fc.assert(
    fc.property(scope, (given) => {
      const { other, may } = sessionOf(given)
      const { prefix, credential } = given
      const of = { prefix, organization: other }
      const path = organizationPath(of)
      const names = [
        parameterName({ ...of, credential }),
        probeName(of),
        path,
        `${path}/`,
        `${path}/rc_`,
        `${path}/deeper/rc_${credential}`,
        prefix,
        `${prefix}/`,
        '/',
      ]
      const reached = names.flatMap((name) =>
        ACTIONS.filter((action) => may(action, name)).map((action) => [action, name]),
      )
      expect(reached).toEqual([])
    }),
    { numRuns: 1000 },
  )
})

test('and what it is for in its own', () => {
  fc.assert(
    fc.property(scope, (given) => {
      const { own, may } = sessionOf(given)
      const { prefix, credential, purpose } = given
      const of = { prefix, organization: own }
      const reads = ACTIONS.filter((action) => action.startsWith('ssm:Get'))
      const name = parameterName({ ...of, credential })
      expect(may('ssm:PutParameter', name)).toBe(purpose === 'write')
      expect(may('ssm:DeleteParameter', name)).toBe(purpose === 'write')
      expect(reads.filter((action) => may(action, name))).toEqual([])
      expect(may('ssm:GetParameter', probeName(of))).toBe(purpose === 'probe')
    }),
    { numRuns: 500 },
  )
})
