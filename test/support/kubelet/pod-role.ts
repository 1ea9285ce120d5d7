/** Roles of pods, in an account that trusts the tokens of a cluster; without vitest, so that scripts can use it too. */
import type { JsonWebKey } from 'node:crypto'
import type { Account, Role } from '../../../test-support/aws/account.ts'
import { readerOf } from '../box/box-bed.ts'
import { blockOf } from '../box/page.ts'

export const AUDIENCE = 'sts.amazonaws.com'
export const SERVICE_ACCOUNT = 'box'
/** The annotation in which EKS keeps the role of a service account. */
export const ROLE_KEY = 'eks.amazonaws.com/role-arn'

/**
 * Makes the account trust the cluster's tokens.
 *
 * @param kubectl runs it and returns its output
 * @returns the issuer, without its scheme
 */
export async function trustIssuer(
  account: Account,
  kubectl: (args: readonly string[]) => Promise<string>,
): Promise<string> {
  const raw = async (path: string) => JSON.parse(await kubectl(['get', '--raw', path])) as unknown
  const { issuer } = (await raw('/.well-known/openid-configuration')) as { issuer: string }
  const { keys } = (await raw('/openid/v1/jwks')) as { keys: JsonWebKey[] }
  account.addIdentityProvider(issuer, { audiences: [AUDIENCE], keys })
  return issuer.replace('https://', '')
}

/** Adds a role with the trust policy of the page, for the pods of a namespace that run as `box`. */
export function addPodRole(
  account: Account,
  of: { name: string; namespace: string; issuer: string; audience?: string },
): Role {
  const { name, namespace, issuer, audience = AUDIENCE } = of
  const trust = blockOf('json', 'AssumeRoleWithWebIdentity')
    .replaceAll('oidc.eks.eu-west-1.amazonaws.com/id/EXAMPLE', issuer)
    .replaceAll('acme:box', `${namespace}:${SERVICE_ACCOUNT}`)
    .replaceAll(`"${AUDIENCE}"`, `"${audience}"`)
  return account.addRole(name, { trust: JSON.parse(trust), policies: { reader: readerOf(namespace) } })
}
