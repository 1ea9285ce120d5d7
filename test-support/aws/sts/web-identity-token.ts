/** Source: STS API Reference, AssumeRoleWithWebIdentity, "Errors"; IAM User Guide, "Create an OpenID Connect identity provider". */
import { createPublicKey, verify } from 'node:crypto'
import { z } from 'zod'
import type { Account, IdentityKey, IdentityProvider } from '../account.ts'
import { AwsError } from '../aws-error.ts'

export type WebIdentity = { provider: IdentityProvider; subject: string; audience: string }

const header = z.object({ alg: z.enum(['RS256', 'ES256']), kid: z.string().optional() })
const claims = z.object({
  iss: z.string(),
  sub: z.string().min(1),
  aud: z.union([z.string(), z.array(z.string())]),
  exp: z.number(),
  iat: z.number(),
  nbf: z.number().optional(),
})

/** The clock skew that AWS allows. */
const SKEW_SECONDS = 300

/** @throws AwsError unless a provider of the account has signed the token for one of its audiences, and it is valid now */
export function readWebIdentity(account: Account, token: string, now: number): WebIdentity {
  const parts = token.split('.')
  const head = header.safeParse(decoded(parts[0]))
  const body = claims.safeParse(decoded(parts[1]))
  if (parts.length !== 3 || !head.success || !body.success)
    throw invalid(
      'The ID Token provided is not a valid JWT. (You may see this error if you sent an Access Token)',
    )
  const { iss, sub, exp, iat, nbf } = body.data
  const provider = account.identityProvider(iss)
  if (!provider) throw invalid(`No OpenIDConnect provider found in your account for ${iss}`)
  checkSignature(provider, head.data, token)
  const audience = [body.data.aud].flat().find((one) => provider.audiences.includes(one))
  if (audience === undefined) throw invalid('Incorrect token audience')
  const seconds = Math.floor(now / 1000)
  if (seconds >= exp)
    throw AwsError.coded(
      'ExpiredTokenException',
      `Token expired: current date/time ${seconds} must be before the expiration date/time ${exp}`,
    )
  if (Math.max(iat, nbf ?? 0) > seconds + SKEW_SECONDS) throw invalid('Token is not yet valid')
  return { provider, subject: sub, audience }
}

function checkSignature(
  provider: IdentityProvider,
  { alg, kid }: z.infer<typeof header>,
  token: string,
): void {
  const key = provider.keys.find((one) => one.kid === kid && fits(one, alg))
  if (!key)
    throw invalid(
      "Couldn't retrieve verification key from your identity provider, please reference AssumeRoleWithWebIdentity documentation for requirements",
    )
  const signed = token.slice(0, token.lastIndexOf('.'))
  const signature = Buffer.from(token.slice(signed.length + 1), 'base64url')
  const publicKey = { key: createPublicKey({ key, format: 'jwk' }), dsaEncoding: 'ieee-p1363' as const }
  if (!verify('sha256', Buffer.from(signed), publicKey, signature))
    throw invalid('The web identity token that was passed could not be validated by AWS.')
}

function fits(key: IdentityKey, algorithm: 'ES256' | 'RS256'): boolean {
  return algorithm === 'RS256' ? key.kty === 'RSA' : key.kty === 'EC' && key.crv === 'P-256'
}

function decoded(part: string | undefined): unknown {
  try {
    return JSON.parse(Buffer.from(part ?? '', 'base64url').toString('utf8'))
  } catch {
    return undefined
  }
}

function invalid(message: string): AwsError {
  return AwsError.coded('InvalidIdentityToken', message)
}
