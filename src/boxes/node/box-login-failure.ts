/** Why a login could not be fetched, with what to change, in one line: it is read in the output of docker, podman or kubelet. */
import type { BoxCredential } from '../../apis/box-credentials.ts'
import { type CloudFailure, failureText } from '../../credentials/cloud-failure.ts'

export type LoginFailure = {
  credential: BoxCredential
  /** Of a pod; absent for the machine's own. */
  roleArn?: string | undefined
  failure: CloudFailure
}

export function loginFailureText(of: LoginFailure): string {
  const { code, remedy, message } = of.failure
  // Nothing was asked by nobody.
  const operation = code === 'NoIdentity' ? undefined : of.failure.operation
  return `${of.credential.id}: ${failureText({ code, remedy, message, operation })}. ${remedyOf(of)}`
}

function remedyOf(of: LoginFailure): string {
  const { code, remedy, operation } = of.failure
  if (code === 'NoIdentity')
    return 'Give this machine an instance role, or set AWS_PROFILE or the like: there are no AWS credentials here.'
  if (remedy === 'retry') return 'It may pass by itself; pull again.'
  if (operation === 'sts:AssumeRoleWithWebIdentity')
    return `The trust policy of ${of.roleArn ?? 'the role'} must allow the cluster's OIDC provider, the pod's service account, and the audience that kubelet is configured with.`
  return of.credential.type === 'ecr' ? ecrRemedy(of) : parameterRemedy(of)
}

function ecrRemedy({ roleArn }: LoginFailure): string {
  return `${roleOf(roleArn)} needs ecr:GetAuthorizationToken on *, and the rights to pull from the repository.`
}

function parameterRemedy({ credential, roleArn, failure }: LoginFailure): string {
  if (credential.type === 'ecr') return ''
  const { name, version, region } = credential.parameter
  if (failure.remedy === 'gone')
    return `Version ${version} of ${name} in ${region} is what the bake read, and it is gone: bake the template again.`
  return `${roleOf(roleArn)} needs ssm:GetParameter on ${name} in ${region}, and kms:Decrypt with its key.`
}

function roleOf(arn: string | undefined): string {
  return arn === undefined ? "This machine's role" : arn
}
