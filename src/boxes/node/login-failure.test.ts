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
    want: 'rc_one: NoIdentity: no. This machine does not have AWS credentials. Attach an instance role, or set AWS_PROFILE or similar variables.',
  },
  {
    what: 'what may pass',
    failure: failure({ code: 'ThrottlingException', remedy: 'retry' }),
    want: 'rc_one: ThrottlingException (ssm:GetParameter): no. This may be temporary. Retry the pull.',
  },
  {
    what: 'a role that trusts nobody',
    roleArn: ROLE,
    failure: failure({ operation: 'sts:AssumeRoleWithWebIdentity' }),
    want: `rc_one: AccessDenied (sts:AssumeRoleWithWebIdentity): no. The trust policy of ${ROLE} must allow the OIDC provider of the cluster, the ServiceAccount of the pod, and the audience that is configured in kubelet.`,
  },
  {
    what: 'a role that trusts nobody and is not known',
    failure: failure({ operation: 'sts:AssumeRoleWithWebIdentity' }),
    want: 'rc_one: AccessDenied (sts:AssumeRoleWithWebIdentity): no. The trust policy of the role must allow the OIDC provider of the cluster, the ServiceAccount of the pod, and the audience that is configured in kubelet.',
  },
  {
    what: 'a machine without the right to ECR',
    credential: ECR,
    failure: failure({ operation: 'ecr:GetAuthorizationToken' }),
    want: "rc_one: AccessDenied (ecr:GetAuthorizationToken): no. This machine's role needs ecr:GetAuthorizationToken on *, and permission to pull from the repository.",
  },
  {
    what: 'a secret that is gone',
    failure: failure({ code: 'ParameterVersionNotFound', remedy: 'gone' }),
    want: 'rc_one: ParameterVersionNotFound (ssm:GetParameter): no. The bake read version 3 of /davit/acme/rc_one in eu-west-1, which no longer exists. Bake the template again.',
  },
  {
    what: 'a role without the right to the secret',
    roleArn: ROLE,
    failure: failure({}),
    want: `rc_one: AccessDenied (ssm:GetParameter): no. ${ROLE} needs ssm:GetParameter on /davit/acme/rc_one in eu-west-1, and kms:Decrypt on its key.`,
  },
])('$what is told with what to change', ({ want, credential = TOKEN, failure, roleArn }) => {
  expect(loginFailureText(credential, failure, roleArn)).toBe(want)
})
