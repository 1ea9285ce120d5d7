/** Answers that end a pass over a credential. */
import type { CredentialStall } from '../../apis/registry-credential.ts'
import { type CloudFailure, failureText } from '../cloud-failure.ts'
import type { CredentialAction } from './credential-step.ts'

export function actionAfterFailure(failure: CloudFailure): CredentialAction {
  const words = failureText(failure)
  // Gone since it was looked at: the next pass finds the name free.
  if (failure.remedy === 'retry' || failure.remedy === 'gone') return waitForCloud(failure)
  if (failure.remedy === 'permissions')
    return refuse(
      'AccessDenied',
      `${words}. Compare the policy of the role with status.writerPolicy of the SecretsSettings.`,
    )
  return refuse('CloudRefused', `${words}. Davit tries again when credential or settings change.`)
}

export function waitForCloud(failure: CloudFailure | undefined): CredentialAction {
  const words = failure ? `${failureText(failure)}. ` : ''
  return { step: 'wait', reason: 'CloudUnavailable', message: `${words}Davit tries again.` }
}

export function refuse(
  reason: CredentialStall,
  message: string,
): Extract<CredentialAction, { step: 'refuse' }> {
  return { step: 'refuse', reason, message }
}
