/** The identity of a pod in AWS: a token that a cluster has signed, and an account that trusts the cluster. */
import { generateKeyPairSync, randomUUID, sign } from 'node:crypto'
import type { Account, IdentityKey } from '../../../test-support/aws/account.ts'

export const ISSUER = 'https://oidc.cluster.test/id/1'
export const AUDIENCE = 'sts.amazonaws.com'

export type TokenClaims = { sub: string; aud?: string; iss?: string; exp?: number; kid?: string }

export type Cluster = {
  /** As in the cluster's JWKS. */
  keys: readonly IdentityKey[]
  /** A token like one that is projected into a pod. @param now milliseconds since 1970 */
  token(claims: TokenClaims, now?: number): string
}

const TOKEN_SECONDS = 3600

export function makeCluster(): Cluster {
  const { privateKey, publicKey } = generateKeyPairSync('rsa', { modulusLength: 2048 })
  const kid = randomUUID()
  const jwk = publicKey.export({ format: 'jwk' })
  return {
    keys: [{ ...jwk, kid, alg: 'RS256', use: 'sig' } as IdentityKey],
    token({ sub, aud = AUDIENCE, iss = ISSUER, exp, kid: other }, now = Date.now()) {
      const seconds = Math.floor(now / 1000)
      const claims = { iss, sub, aud: [aud], iat: seconds, nbf: seconds, exp: exp ?? seconds + TOKEN_SECONDS }
      const parts = [{ alg: 'RS256', kid: other ?? kid }, claims]
      const signed = parts.map((part) => Buffer.from(JSON.stringify(part)).toString('base64url')).join('.')
      return `${signed}.${sign('sha256', Buffer.from(signed), privateKey).toString('base64url')}`
    },
  }
}

export function subjectOf(namespace: string, serviceAccount: string): string {
  return `system:serviceaccount:${namespace}:${serviceAccount}`
}

/** Adds a role for one ServiceAccount of the cluster, as in a setup of IRSA. */
export function addBoxRole(
  account: Account,
  cluster: Cluster,
  options: { subject: string; policy: Record<string, unknown> },
) {
  const provider =
    account.identityProvider(ISSUER) ??
    account.addIdentityProvider(ISSUER, { audiences: [AUDIENCE], keys: cluster.keys })
  const claim = ISSUER.replace('https://', '')
  return account.addRole('box', {
    trust: {
      Version: '2012-10-17',
      Statement: [
        {
          Effect: 'Allow',
          Principal: { Federated: provider.arn },
          Action: 'sts:AssumeRoleWithWebIdentity',
          Condition: { StringEquals: { [`${claim}:sub`]: options.subject, [`${claim}:aud`]: AUDIENCE } },
        },
      ],
    },
    policies: { box: options.policy },
  })
}
