import type { Principal } from './account.ts'
import type { Accounts } from './accounts.ts'
import { AwsError } from './aws-error.ts'
import { endpointOf, partitionOfRegion } from './partitions.ts'
import { type Claim, checkSignature, type SignedRequest } from './sigv4.ts'

type Expected = { accounts: Accounts; service: string; skewMinutes: number; now: number }

/** @returns the principal that signed the request @throws AwsError unless the signature is valid for this service and time */
export async function authenticate(
  claim: Claim,
  request: SignedRequest,
  expected: Expected,
): Promise<Principal> {
  const { accounts, service, skewMinutes, now } = expected
  checkScope(claim, request, service)
  const { principal, secret } = accounts.keys.find(claim.accessKeyId, claim.sessionToken)
  if (partitionOfRegion(claim.region) !== principal.account.partition)
    throw AwsError.of('invalid-token', 'The security token included in the request is invalid.')
  checkTime(claim.signedAt, now, skewMinutes)
  await checkSignature(claim, request, secret)
  if (principal.session && principal.session.expiresAt <= now)
    throw AwsError.of('expired-token', 'The security token included in the request is expired')
  return principal
}

/** At the emulator's own address any region is accepted, as at a global endpoint. */
function checkScope(claim: Claim, { headers }: SignedRequest, service: string): void {
  const endpoint = endpointOf(headers.host ?? '')
  if (claim.service !== service || (endpoint && endpoint.service !== claim.service))
    throw AwsError.of(
      'signature',
      `Credential should be scoped to correct service: '${endpoint?.service ?? service}'.`,
    )
  if (!partitionOfRegion(claim.region) || (endpoint && endpoint.region !== claim.region))
    throw AwsError.of('signature', `Credential should be scoped to a valid region.`)
}

function checkTime(signedAt: number, now: number, minutes: number): void {
  const skew = minutes * 60_000
  const text = (time: number) => new Date(time).toISOString().replace(/[-:]|\.\d+/g, '')
  if (signedAt < now - skew)
    throw AwsError.of(
      'signature',
      `Signature expired: ${text(signedAt)} is now earlier than ${text(now - skew)} (${text(now)} - ${minutes} min.)`,
    )
  if (signedAt > now + skew)
    throw AwsError.of(
      'signature',
      `Signature not yet current: ${text(signedAt)} is still later than ${text(now + skew)} (${text(now)} + ${minutes} min.)`,
    )
}
