import { createHmac } from 'node:crypto'
import { AWS_PARTITIONS, KMS_KEY, partitionOfRegion, ROLE_ARN } from '../../apis/aws-names.ts'
import { CREDENTIAL_PREFIX } from '../../apis/ids.ts'
import { DNS_LABEL, GROUP } from '../../apis/meta.ts'
import { deriveKey, encodeBase32, keyedHash } from '../../lib/text.ts'

/** ARNs and names of services in the partition of a region. */

/** Where parameters are. `account` is `*` while it is not known. */
export type AwsScope = { partition: string; region: string; account: string }

export function awsScopeOf(region: string, account: string): AwsScope {
  return { partition: partitionOfRegion(region), region, account }
}

/** @param name with its slash at the front; it may end with `*` in a policy */
export function parameterArn({ partition, region, account }: AwsScope, name: string): string {
  return `arn:${partition}:ssm:${region}:${account}:parameter${name}`
}

/**
 * Values of `kms:ViaService` for the parameter store. Outside of the commercial partition policies are found with the names of
 * either; a request has one of them.
 */
export function parameterStoreServices({ partition, region }: AwsScope): string[] {
  const suffix = AWS_PARTITIONS.find(({ name }) => name === partition)?.dnsSuffix ?? 'amazonaws.com'
  return [...new Set(['amazonaws.com', suffix])].map((end) => `ssm.${region}.${end}`)
}

/** The ARN of an IAM role, in its parts. */

/** `path` begins and ends with a slash. */
export type RoleArn = { partition: string; account: string; path: string; name: string }

export function parseRoleArn(arn: string): RoleArn | undefined {
  const [, partition, account, path = '', , name] = ROLE_ARN.exec(arn) ?? []
  if (partition === undefined || account === undefined || name === undefined) return undefined
  return { partition, account, path: `/${path}`, name }
}

/** @throws RangeError where it is none: the API server has let only ARNs of roles through */
export function roleArnParts(arn: string): RoleArn {
  const parts = parseRoleArn(arn)
  if (parts === undefined) throw new RangeError('not the ARN of a role')
  return parts
}

const ASSUMED_ROLE = /^arn:([a-z-]+):sts::([0-9]{12}):assumed-role\/([^/]+)\/[^/]+$/

/**
 * What a trust policy names for who STS says that somebody is: a role for one of its sessions. The session does not tell
 * the role's path, so a role that has one must be given by the operator.
 */
export function principalOf(callerArn: string): string {
  const [, partition, account, name] = ASSUMED_ROLE.exec(callerArn) ?? []
  return name === undefined ? callerArn : `arn:${partition}:iam::${account}:role/${name}`
}

/** A KMS key as SecretsSettings and the parameter store name it: by id, by alias, or by the ARN of either. */

/** `place` only where an ARN was given. */
export type KmsKey = { kind: 'key' | 'alias'; id: string; place?: { region: string; account: string } }

/** The account's own key for parameters, where none is named. */
export const DEFAULT_KMS_KEY = 'alias/aws/ssm'

export function parseKmsKey(text: string): KmsKey | undefined {
  if (!KMS_KEY.test(text)) return undefined
  if (!text.startsWith('arn:')) return named(text)
  const [, , , region = '', account = '', resource = ''] = text.split(':')
  return { ...named(resource.replace(/^key\//, '')), place: { region, account } }
}

function named(id: string): { kind: 'key' | 'alias'; id: string } {
  return { kind: id.startsWith('alias/') ? 'alias' : 'key', id }
}

/**
 * The resource that a policy names for a key. An alias is none, so all keys of its account stand for it.
 * @param place of the account that the parameters are in
 */
export function kmsResource(
  key: string | undefined,
  place: { partition: string; region: string; account: string },
): string {
  const parsed = key === undefined ? undefined : parseKmsKey(key)
  const account = parsed?.place?.account ?? place.account
  const id = parsed?.kind === 'key' ? parsed.id : '*'
  return `arn:${place.partition}:kms:${place.region}:${account}:key/${id}`
}

/**
 * Whether a listing shows another key than the one that was asked for. The store shows what it was given, so an alias beside
 * an id says nothing, and an id is the same with and without the ARN around it.
 */
export function isOtherKey(asked: string | undefined, listed: string | undefined): boolean {
  const a = parseKmsKey(asked ?? DEFAULT_KMS_KEY)
  const b = parseKmsKey(listed ?? DEFAULT_KMS_KEY)
  return a !== undefined && b !== undefined && a.kind === b.kind && a.id !== b.id
}

/**
 * Names of parameters: `<prefix>/<organization>/rc_<credential>`. They come from Davit alone. None is too long: the setting of
 * the prefix allows 100 characters in 8 parts, and an ARN of a parameter may have 1,011 in 15.
 */

/** What every parameter of an organization is under, without a slash at the end. */
export function organizationPath({ prefix, organization }: { prefix: string; organization: string }): string {
  return `${prefix}/${label(organization)}`
}

export function parameterName(of: { prefix: string; organization: string; credential: string }): string {
  return `${organizationPath(of)}/${CREDENTIAL_PREFIX}${label(of.credential)}`
}

/**
 * A parameter that holds no secret: whether it can be written and read is what is tried. It is named as those of credentials are, so
 * that what is allowed for `rc_*` alone is found; no credential has its name, since none may have an underscore.
 */
export function probeName(of: { prefix: string; organization: string }): string {
  return `${organizationPath(of)}/rc__probe`
}

/** The credential whose parameter it is; undefined for any other name. */
export function credentialOf(name: string, of: { prefix: string; organization: string }): string | undefined {
  const start = `${organizationPath(of)}/${CREDENTIAL_PREFIX}`
  const credential = name.startsWith(start) ? name.slice(start.length) : ''
  return DNS_LABEL.test(credential) ? credential : undefined
}

/** Names come from the API server, which has checked them; a slash in one would be a way into another organization. */
function label(name: string): string {
  if (!DNS_LABEL.test(name)) throw new RangeError('not a DNS label')
  return name
}

/**
 * Tags that say whose a parameter is. Only what carries this installation and the UID of the organization may be removed or
 * written over: an organization that was made again under its name, or another Davit, has parameters of its own.
 */

export type Tags = Readonly<Record<string, string>>

/** Who owns: what a listing is filtered by, and what decides. */
export type Owner = { installation: string; organizationUid: string }

const INSTALLATION_TAG = `${GROUP}/installation`
export const ORGANIZATION_UID_TAG = `${GROUP}/organization-uid`
export const ORGANIZATION_TAG = `${GROUP}/organization`
const CREDENTIAL_TAG = `${GROUP}/credential`

/** Id of this installation; it says nothing of the key. */
export function installationId(installationKey: Uint8Array): string {
  return keyedHash(deriveKey('installation-id', installationKey), [])
}

/** @param credential name of the resource; absent for the parameter that is only tried */
export function ownerTags(
  owner: Owner & { organization: string; credential?: string },
): Readonly<Record<string, string>> {
  return {
    ...ownerFilter(owner),
    [ORGANIZATION_TAG]: owner.organization,
    ...(owner.credential === undefined ? {} : { [CREDENTIAL_TAG]: owner.credential }),
  }
}

/** The tags that every parameter of the organization has. */
export function ownerFilter({ installation, organizationUid }: Owner): Tags {
  return { [INSTALLATION_TAG]: installation, [ORGANIZATION_UID_TAG]: organizationUid }
}

export function isOwnedBy(tags: Tags, owner: Owner): boolean {
  return Object.entries(ownerFilter(owner)).every(([key, value]) => value !== '' && tags[key] === value)
}

/**
 * The external id of an organization: who asks AWS for its role must know it. Derived from the installation's key and the UID
 * of the namespace, so that nobody chooses it, facade and controller have the same, and it is there before any resource is.
 */

/** 160 bits. */
const CHARACTERS = 32

export function externalId(installationKey: Uint8Array, organizationUid: string): string {
  const digest = createHmac('sha256', deriveKey('external-id', installationKey))
    .update(organizationUid)
    .digest()
  return `davit-${encodeBase32(digest, CHARACTERS)}`
}
