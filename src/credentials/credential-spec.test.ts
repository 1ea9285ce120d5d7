import { expect, test } from 'vitest'
import { credentialSpecProblem, credentialWarning } from './spec.ts'

const ECR = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'

test.each([
  { type: 'token', registry: 'ghcr.io', username: 'acme-bot' },
  { type: 'token', registry: ECR, username: 'AWS' },
  { type: 'ecr', registry: ECR },
  { type: 'ecr', registry: `${ECR.toUpperCase()}.:443` },
] as const)('$type of $registry is right', (spec) => {
  expect(credentialSpecProblem(spec)).toBeUndefined()
})

test.each([
  {
    spec: { type: 'token', registry: '127.1', username: 'a' },
    want: ['registry', 'InvalidRegistry', 'four numbers'],
  },
  { spec: { type: 'token', registry: 'ghcr.io' }, want: ['username', 'InvalidUsername', 'empty'] },
  {
    spec: { type: 'token', registry: 'ghcr.io', username: 'a:b' },
    want: ['username', 'InvalidUsername', 'colon'],
  },
  {
    spec: { type: 'ecr', registry: 'ghcr.io' },
    want: ['registry', 'InvalidRegistry', 'the ECR host of a single AWS account'],
  },
  {
    spec: { type: 'ecr', registry: `${ECR}.evil.test` },
    want: ['registry', 'InvalidRegistry', 'evil.test is not an AWS domain'],
  },
  {
    spec: { type: 'ecr', registry: `${ECR}:8443` },
    want: ['registry', 'InvalidRegistry', 'must not include a port'],
  },
  {
    spec: { type: 'token', registry: 'hub.docker.com', username: 'a' },
    want: ['registry', 'InvalidRegistry', 'must be docker.io'],
  },
  {
    spec: { type: 'ecr', registry: 'public.ecr.aws' },
    want: ['registry', 'InvalidRegistry', 'names neither'],
  },
] as const)('$spec.type of $spec.registry is refused: $want.2', ({ spec, want: [field, reason, words] }) => {
  expect(credentialSpecProblem(spec)).toEqual({ field, reason, message: expect.stringContaining(words) })
})

test('a token for ECR is taken with a warning, nothing else has one', () => {
  expect(credentialWarning({ type: 'token', registry: ECR })).toContain('12 hours')
  expect(credentialWarning({ type: 'ecr', registry: ECR })).toBeUndefined()
  expect(credentialWarning({ type: 'token', registry: 'ghcr.io' })).toBeUndefined()
})
