import { type KmsKey, viaService } from '../account.ts'
import type { Call } from '../call.ts'
import { denied, ownRefusal, resourceVerdict } from '../iam/authorize.ts'
import type { AccessRequest } from '../iam/evaluate.ts'

/**
 * Checks whether the caller may use the key, directly or through SSM for a parameter. If the key policy names the caller, the
 * caller's own policies need not allow it; if it delegates to the account, they must. A session policy narrows the permission in
 * either case, even where AWS may not apply it: there the emulator is stricter.
 * Source: KMS Developer Guide, "Determining access to KMS keys", "kms:ViaService".
 * @throws AwsError
 */
export function authorizeKey(call: Call, key: KmsKey, action: string, parameterArn?: string): void {
  const { principal, region, context } = call
  const request: AccessRequest = {
    action,
    resource: key.arn,
    context: context.with({
      'aws:ResourceAccount': principal.account.id,
      'kms:CallerAccount': principal.account.id,
      ...(parameterArn !== undefined && {
        'aws:ViaAWSService': 'true',
        'kms:ViaService': viaService(principal.account, region),
        'kms:EncryptionContext:PARAMETER_ARN': parameterArn,
        'kms:EncryptionContextKeys': ['PARAMETER_ARN'],
      }),
    }),
  }
  const { effect, allowedAs } = resourceVerdict(key.policy, principal, request)
  if (effect === 'deny') throw denied(principal, request, 'with an explicit deny in a resource-based policy')
  if (effect === 'none')
    throw denied(principal, request, `because no resource-based policy allows the ${action} action`)
  const isNamed = ['anyone', 'role', 'session', 'user'].some((as) => allowedAs.has(as as 'role'))
  const refusal = ownRefusal(principal, request, !isNamed)
  if (refusal !== undefined) throw denied(principal, request, refusal)
}
