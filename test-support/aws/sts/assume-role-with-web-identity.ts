/** Source: STS API Reference, AssumeRoleWithWebIdentity; IAM User Guide, "Available keys for AWS OIDC federation". */

import { z } from 'zod'
import type { Principal } from '../account.ts'
import { AwsError } from '../aws-error.ts'
import { operation } from '../call.ts'
import { applies, effectOf } from '../iam/evaluate.ts'
import { parsePolicy } from '../iam/policy.ts'
import { assumeRoleInput } from './assume-role-input.ts'
import { openSession, ROLE_ARN } from './open-session.ts'
import { packedSize } from './packed-policy.ts'
import { readWebIdentity } from './web-identity-token.ts'

const ACTION = 'sts:AssumeRoleWithWebIdentity'

const input = assumeRoleInput
  .pick({ RoleArn: true, RoleSessionName: true, Policy: true, DurationSeconds: true })
  .extend({ WebIdentityToken: z.string().min(4).max(20_000) })

export const assumeRoleWithWebIdentity = operation('AssumeRoleWithWebIdentity', {
  family: 'sts',
  input,
  trailInput: ({ WebIdentityToken: _, ...rest }) => rest,
  accountOf: ({ RoleArn }) => ROLE_ARN.exec(RoleArn)?.[2],
  unsigned(accounts, { RoleArn }): Principal {
    const [, partition, id = ''] = ROLE_ARN.exec(RoleArn) ?? []
    if (partition === undefined) throw AwsError.of('validation', `${RoleArn} is invalid`)
    const account = accounts.get(id)
    if (!account || account.isClosed || account.partition.name !== partition) throw notAuthorized()
    return { account, arn: '', userId: '', tags: new Map(), policies: [] }
  },
  run(call, given) {
    const { account } = call.principal
    const policy = given.Policy === undefined ? undefined : parsePolicy(given.Policy, 'session')
    const identity = readWebIdentity(account, given.WebIdentityToken, call.now)
    const { provider, subject, audience } = identity
    const issuer = provider.issuer.replace(/^https:\/\//, '')
    const role = account.role(given.RoleArn)
    const context = call.context.with({
      [`${issuer}:sub`]: subject,
      [`${issuer}:aud`]: audience,
      'sts:RoleSessionName': given.RoleSessionName,
    })
    const spoken = (role?.trust ?? []).filter(
      (statement) =>
        statement.principals.some((name) => name === provider.arn || name === '*') &&
        applies(statement, { action: ACTION, resource: given.RoleArn, context }),
    )
    if (!role || effectOf(spoken) !== 'allow') throw notAuthorized()
    if (given.DurationSeconds > role.maxSessionSeconds)
      throw AwsError.of(
        'validation',
        'The requested DurationSeconds exceeds the MaxSessionDuration set for this role.',
      )
    const tags = new Map<string, string>()
    const packed = packedSize(given.Policy, tags)
    const caller = { ...call, principal: { ...call.principal, arn: `${provider.arn}:${subject}` } }
    return {
      ...openSession(caller, { role, input: given, tags, policy, packed }),
      SubjectFromWebIdentityToken: subject,
      Audience: audience,
      Provider: provider.arn,
    }
  },
})

/** AWS does not say what did not match. */
function notAuthorized(): AwsError {
  return AwsError.of('access-denied', `Not authorized to perform ${ACTION}`)
}
