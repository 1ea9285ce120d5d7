/** Names in the AWS accounts of organizations: ARNs, parameters, keys and external ids. Pure. */
import { createHmac } from 'node:crypto'
import { AWS_PARTITIONS, KMS_KEY, partitionOfRegion, ROLE_ARN } from '../../apis/aws-names.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { DNS_LABEL } from '../../apis/meta.ts'
import { deriveKey, encodeBase32 } from '../../lib/text.ts'

/** `account` is `*` while it is unknown. */
export type AwsScope = { partition: string; region: string; account: string }

export function awsScopeOf(region: string, account: string): AwsScope {
  return { partition: partitionOfRegion(region), region, account }
}

/** @param name with a leading slash; in a policy it may end with `*` */
export function parameterArn({ partition, region, account }: AwsScope, name: string): string {
  return `arn:${partition}:ssm:${region}:${account}:parameter${name}`
}

/**
 * Values of `kms:ViaService` for Parameter Store. Outside the commercial partition, policies use either suffix; a request has one of
 * them.
 */
export function parameterStoreServices({ partition, region }: AwsScope): string[] {
  const suffix = AWS_PARTITIONS.find(({ name }) => name === partition)?.dnsSuffix ?? 'amazonaws.com'
  return [...new Set(['amazonaws.com', suffix])].map((end) => `ssm.${region}.${end}`)
}

export type RoleArn = { partition: string; account: string; path: string; name: string }

export function parseRoleArn(arn: string): RoleArn | undefined {
  const [, partition, account, path = '', , name] = ROLE_ARN.exec(arn) ?? []
  if (partition === undefined || account === undefined || name === undefined) return undefined
  return { partition, account, path: `/${path}`, name }
}

/** @throws RangeError; the API server admits only ARNs of roles */
export function roleArnParts(arn: string): RoleArn {
  const parts = parseRoleArn(arn)
  if (parts === undefined) throw new RangeError('not a role ARN')
  return parts
}

const ASSUMED_ROLE = /^arn:([a-z-]+):sts::([0-9]{12}):assumed-role\/([^/]+)\/[^/]+$/

/**
 * The principal for a trust policy, from the ARN that STS reports: the role of a session. A session does not reveal the role's path,
 * so a role with a path has to be configured.
 */
export function principalOf(callerArn: string): string {
  const [, partition, account, name] = ASSUMED_ROLE.exec(callerArn) ?? []
  return name === undefined ? callerArn : `arn:${partition}:iam::${account}:role/${name}`
}

/** A KMS key by id, alias, or the ARN of either; `home` only for an ARN. */
export type KmsKey = { kind: 'key' | 'alias'; id: string; home?: { region: string; account: string } }

export const DEFAULT_KMS_KEY = 'alias/aws/ssm'

export function parseKmsKey(text: string): KmsKey | undefined {
  if (!KMS_KEY.test(text)) return undefined
  if (!text.startsWith('arn:')) return named(text)
  const [, , , region = '', account = '', resource = ''] = text.split(':')
  return { ...named(resource.replace(/^key\//, '')), home: { region, account } }
}

function named(id: string): { kind: 'key' | 'alias'; id: string } {
  return { kind: id.startsWith('alias/') ? 'alias' : 'key', id }
}

/**
 * The resource for a key in a policy. An alias is no resource, so it stands for all keys of its account. @param scope of the account
 * of the parameters
 */
export function kmsResource(key: string | undefined, scope: AwsScope): string {
  const parsed = key === undefined ? undefined : parseKmsKey(key)
  const account = parsed?.home?.account ?? scope.account
  const id = parsed?.kind === 'key' ? parsed.id : '*'
  return `arn:${scope.partition}:kms:${scope.region}:${account}:key/${id}`
}

/**
 * Whether a listing shows another key than the wanted one. The store shows what it was given: an alias and an id cannot be compared,
 * and an id equals its ARN.
 */
export function isOtherKey(asked: string | undefined, listed: string | undefined): boolean {
  const a = parseKmsKey(asked ?? DEFAULT_KMS_KEY)
  const b = parseKmsKey(listed ?? DEFAULT_KMS_KEY)
  return a !== undefined && b !== undefined && a.kind === b.kind && a.id !== b.id
}

/**
 * Everything of an organization is under it; no trailing slash. Parameters are named `<prefix>/<organization>/rc_<credential>`, by
 * Davit alone, and never too long: the prefix may have 100 characters in 8 parts, the ARN of a parameter 1,011 in 15.
 */

export function organizationPath({ prefix, organization }: { prefix: string; organization: string }): string {
  return `${prefix}/${label(organization)}`
}

export function parameterName(of: { prefix: string; organization: string; credential: string }): string {
  return `${organizationPath(of)}/${CREDENTIAL_PREFIX}${label(of.credential)}`
}

/**
 * A parameter without a secret, to test writing and reading. It is named like those of credentials, so that rights on `rc_*` alone are
 * found; no credential has its name, since none may have an underscore.
 */
export function probeName(of: { prefix: string; organization: string }): string {
  return `${organizationPath(of)}/rc__probe`
}

/** The credential of a parameter; undefined for any other name. */
export function credentialOf(name: string, of: { prefix: string; organization: string }): string | undefined {
  const start = `${organizationPath(of)}/${CREDENTIAL_PREFIX}`
  const credential = name.startsWith(start) ? name.slice(start.length) : ''
  return DNS_LABEL.test(credential) ? credential : undefined
}

/** The API server has validated names; a slash in one would lead into another organization. */
function label(name: string): string {
  if (!DNS_LABEL.test(name)) throw new RangeError('not a DNS label')
  return name
}

/** 160 bits. */
const CHARACTERS = 32

/**
 * The external id of an organization, which a caller has to know to assume its role. Derived from the installation key and the UID of the
 * namespace: it is not chosen by anyone, every process derives the same, and it exists before any resource.
 */
export function externalId(installationKey: Uint8Array, organizationUid: string): string {
  const digest = createHmac('sha256', deriveKey('external-id', installationKey))
    .update(organizationUid)
    .digest()
  return `davit-${encodeBase32(digest, CHARACTERS)}`
}
