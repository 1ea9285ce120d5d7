import { expect, test } from 'vitest'
import type { BoxCredential } from '../../apis/box-credentials.ts'
import type { CloudFailure } from '../../credentials/cloud.ts'
import { loginFailureText } from './credential-choice.ts'

const OF = { id: 'rc_one', repositories: [] }
const TOKEN: BoxCredential = {
  ...OF,
  type: 'token',
  registry: 'ghcr.io',
  username: 'bot',
  parameter: { name: '/davit/acme/rc_one', version: 3, region: 'eu-west-1' },
}
const ECR: BoxCredential = {
  ...OF,
  type: 'ecr',
  registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
}
const ROLE = 'arn:aws:iam::123456789012:role/box'

const failure = (over: Partial<CloudFailure>): CloudFailure => ({
  remedy: 'permissions',
  code: 'AccessDenied',
  operation: 'ssm:GetParameter',
  message: 'no.',
  ...over,
})

test.each([
  {
    what: 'nobody to ask as',
    failure: failure({ code: 'NoIdentity', remedy: 'permissions' }),
    want: 'rc_one: NoIdentity: no. Give this machine an instance role, or set AWS_PROFILE or the like: there are no AWS credentials here.',
  },
  {
    what: 'what may pass',
    failure: failure({ code: 'ThrottlingException', remedy: 'retry' }),
    want: 'rc_one: ThrottlingException (ssm:GetParameter): no. It may pass by itself; pull again.',
  },
  {
    what: 'a role that trusts nobody',
    roleArn: ROLE,
    failure: failure({ operation: 'sts:AssumeRoleWithWebIdentity' }),
    want: `rc_one: AccessDenied (sts:AssumeRoleWithWebIdentity): no. The trust policy of ${ROLE} must allow the cluster's OIDC provider, the pod's service account, and the audience that kubelet is configured with.`,
  },
  {
    what: 'a role that trusts nobody and is not known',
    failure: failure({ operation: 'sts:AssumeRoleWithWebIdentity' }),
    want: "rc_one: AccessDenied (sts:AssumeRoleWithWebIdentity): no. The trust policy of the role must allow the cluster's OIDC provider, the pod's service account, and the audience that kubelet is configured with.",
  },
  {
    what: 'a machine without the right to ECR',
    credential: ECR,
    failure: failure({ operation: 'ecr:GetAuthorizationToken' }),
    want: "rc_one: AccessDenied (ecr:GetAuthorizationToken): no. This machine's role needs ecr:GetAuthorizationToken on *, and the rights to pull from the repository.",
  },
  {
    what: 'a secret that is gone',
    failure: failure({ code: 'ParameterVersionNotFound', remedy: 'gone' }),
    want: 'rc_one: ParameterVersionNotFound (ssm:GetParameter): no. Version 3 of /davit/acme/rc_one in eu-west-1 is what the bake read, and it is gone: bake the template again.',
  },
  {
    what: 'a role without the right to the secret',
    roleArn: ROLE,
    failure: failure({}),
    want: `rc_one: AccessDenied (ssm:GetParameter): no. ${ROLE} needs ssm:GetParameter on /davit/acme/rc_one in eu-west-1, and kms:Decrypt with its key.`,
  },
])('$what is told with what to change', ({ want, credential = TOKEN, failure, roleArn }) => {
  expect(loginFailureText(credential, failure, roleArn)).toBe(want)
})
