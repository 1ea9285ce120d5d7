/**
 * Chooses the credential for a registry or an image from the credentials files of bakes. A Docker helper only gets the host, so it answers
 * only if the choice is unique; kubelet names the image.
 */
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { parseRegistryHost } from '../../apis/registry-host.ts'
import { organizationPath } from '../../credentials/aws/names.ts'
import {
  type BoxLogins,
  CloudError,
  type CloudFailure,
  failureText,
  type PodRole,
} from '../../credentials/cloud.ts'

export type HelperResult = { exitCode: 0 | 1; stdout: string; stderr: string }

/** Makes a helper fail with this message. */
export class HelperRefusal extends Error {
  override readonly name = 'HelperRefusal'
}

export function refuse(message: string): never {
  throw new HelperRefusal(message)
}

/** @throws HelperRefusal */
export async function fetchLogin(logins: BoxLogins, { credential }: OwnedCredential, pod?: PodRole) {
  try {
    return await logins.login(credential, pod)
  } catch (error) {
    if (!(error instanceof CloudError)) throw error
    return refuse(loginFailureText(credential, error, pod?.roleArn))
  }
}

/**
 * Why a login could not be fetched and what to change, in one line for the output of Docker, Podman or kubelet.
 * @param roleArn of a pod; absent for the role of the machine
 */
export function loginFailureText(credential: BoxCredential, failure: CloudFailure, roleArn?: string): string {
  const { code, remedy, message } = failure
  // Without credentials no operation was tried.
  const operation = code === 'NoIdentity' ? undefined : failure.operation
  const text = failureText({ code, remedy, message, operation })
  return `${credential.id}: ${text}. ${remedyText(credential, failure, roleArn)}`
}

function remedyText(credential: BoxCredential, failure: CloudFailure, roleArn: string | undefined): string {
  const { code, remedy, operation } = failure
  if (code === 'NoIdentity')
    return 'This machine does not have AWS credentials. Attach an instance role, or set AWS_PROFILE or similar variables.'
  if (remedy === 'retry') return 'This may be temporary. Retry the pull.'
  if (operation === 'sts:AssumeRoleWithWebIdentity')
    return `The trust policy of ${roleArn ?? 'the role'} must allow the OIDC provider of the cluster, the ServiceAccount of the pod, and the audience that is configured in kubelet.`
  const role = roleArn ?? "This machine's role"
  if (credential.type === 'ecr')
    return `${role} needs ecr:GetAuthorizationToken on *, and permission to pull from the repository.`
  const { name, version, region } = credential.parameter
  if (remedy === 'gone')
    return `The bake read version ${version} of ${name} in ${region}, which no longer exists. Bake the template again.`
  return `${role} needs ssm:GetParameter on ${name} in ${region}, and kms:Decrypt on its key.`
}

export type OwnedCredential = { organization: string; credential: BoxCredential }

/** `several` are the ids of credentials that are equally good. */
type Choice<T = OwnedCredential> =
  | { of: T; several?: never }
  | { several: readonly string[]; of?: never }
  | { of?: never; several?: never }

export function chooseByHost(maps: readonly BoxCredentials[], host: string): Choice {
  return onlyOne(mergeMaps(maps).filter(({ credential }) => credential.registry === host))
}

/** The user name for each host with a unique credential. ECR has one user name for all. */
export function usernamesByHost(maps: readonly BoxCredentials[]): Map<string, string> {
  const byHost = Map.groupBy(mergeMaps(maps), ({ credential }) => credential.registry)
  return new Map(
    [...byHost.keys()].sort().flatMap((host) => {
      const { of } = onlyOne(byHost.get(host) ?? [])
      if (of === undefined) return []
      return [[host, of.credential.type === 'ecr' ? 'AWS' : of.credential.username] as const]
    }),
  )
}

export type CredentialScope = 'registry' | 'repository'
/** `why` is text that follows the name of the credential. */
export type ImageCredential = OwnedCredential & { scope: CredentialScope; why: string }

/**
 * An image of a box gets the credential that its bake used. Another image gets that of the box's image with the longest common path
 * prefix, at least one part. An ECR token is for the whole host.
 *
 * @param maps of one organization
 * @param host canonical
 */
export function chooseByImage(
  maps: readonly BoxCredentials[],
  { host, repository }: { host: string; repository: string },
): Choice<ImageCredential> {
  const known = mergeMaps(maps).filter(({ credential }) => credential.registry === host)
  const ranked = known.map((one) => ({ one, ...nearest(one.credential, repository) }))
  const most = Math.max(0, ...ranked.map(({ shared }) => shared))
  const best = ranked.filter(({ shared }) => shared > 0 && shared === most).map(({ one }) => one)
  const { of, several } = onlyOne(most === Number.POSITIVE_INFINITY ? lastUsed(best, repository) : best)
  if (several !== undefined) return { several }
  if (of === undefined) return {}
  const isForHost = of.credential.type === 'ecr' && onlyOne(known).of !== undefined
  const near = nearest(of.credential, repository).repository
  const why =
    near === repository
      ? 'which a bake used to pull this image'
      : `which a bake used to pull the closest match, ${near}`
  return { of: { ...of, scope: isForHost ? 'registry' : 'repository', why } }
}

/**
 * A credentials file may name any parameter that the role can read. Only the one that Davit stores for this credential is accepted.
 *
 * @param prefix of all parameters, such as `/davit`
 * @returns the problem as text that follows the credential's id
 */
export function foreignParameter(
  { organization, credential }: OwnedCredential,
  prefix: string,
): string | undefined {
  if (credential.type === 'ecr') return undefined
  const own = `${organizationPath({ prefix, organization })}/${credential.id}`
  if (credential.parameter.name === own) return undefined
  return `is stored at ${own}, but the credentials file contains ${credential.parameter.name}; check DAVIT_PARAMETER_PREFIX, the prefix of parameter names`
}

type Known = OwnedCredential & {
  /** Time of the latest file; milliseconds since 1970. */
  at: number
  /** Time of the latest file per image. */
  usedAt: ReadonlyMap<string, number>
}

function mergeMaps(maps: readonly BoxCredentials[]): Known[] {
  const found = new Map<string, Known>()
  for (const map of [...maps].sort((a, b) => timeOf(a) - timeOf(b))) {
    const { namespace: organization } = map.template
    const at = timeOf(map)
    for (const given of map.credentials) {
      // A file may be written by hand, or by another version of Davit.
      const registry = parseRegistryHost(given.registry).host ?? given.registry
      const credential = { ...given, registry }
      const usedAt = new Map(credential.repositories.map((repository) => [repository, at]))
      const key = `${organization}/${credential.id}`
      found.set(key, merge({ organization, credential, at, usedAt }, found.get(key)))
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, known]) => known)
}

/** Prefers the controller's clock, which all bakes share. Old files have no time at all. */
function timeOf({ orderedAt, bakedAt }: BoxCredentials): number {
  return Date.parse(orderedAt ?? bakedAt ?? '1970-01-01T00:00:00Z')
}

/**
 * The later entry wins, with the images of both. Versions of a secret restart when it or its credential is recreated, so time counts
 * first. If the registry of a credential changed, its earlier images are dropped: they must not get the new secret.
 */
function merge(next: Known, before: Known | undefined): Known {
  if (before === undefined) return next
  const last = isBehind(next, before) ? before : next
  const { registry } = last.credential
  const usedAt = new Map(
    [before, next].flatMap((entry) => (entry.credential.registry === registry ? [...entry.usedAt] : [])),
  )
  return { ...last, usedAt, credential: { ...last.credential, repositories: [...usedAt.keys()] } }
}

/** Whether `next` is older nevertheless. @param before not later than `next` by the clock */
function isBehind(next: Known, before: Known): boolean {
  const [a, b] = [next.credential, before.credential]
  const isSame = a.uid !== undefined && a.uid === b.uid
  const generations = (a.generation ?? 0) - (b.generation ?? 0)
  if (isSame && generations !== 0) return generations < 0
  return next.at === before.at && versionOf(a) < versionOf(b)
}

function versionOf(credential: BoxCredential): number {
  return credential.type === 'ecr' ? 0 : credential.parameter.version
}

function onlyOne(found: readonly OwnedCredential[]): Choice {
  const [first, ...others] = found
  if (first === undefined) return {}
  // All ECR credentials are equal: the token is for the box's own role.
  const isUnique = others.length === 0 || found.every(({ credential }) => credential.type === 'ecr')
  return isUnique ? { of: first } : { several: found.map(qualifiedCredentialName) }
}

/** The one with which the latest bake pulled this image; always the same. */
function lastUsed(found: readonly Known[], repository: string): Known[] {
  const usedAt = (known: Known) => known.usedAt.get(repository) ?? 0
  return [...found].sort((a, b) => usedAt(b) - usedAt(a)).slice(0, 1)
}

export function qualifiedCredentialName({ organization, credential }: OwnedCredential): string {
  return `${organization}/${credential.id}`
}

/** The nearest image of a box, and how many parts of the path it shares; infinitely many if it is the same image. */
function nearest(credential: BoxCredential, repository: string): { repository: string; shared: number } {
  return credential.repositories
    .map((known) => ({ repository: known, shared: sharedParts(credential, known, repository) }))
    .reduce((best, next) => (next.shared > best.shared ? next : best))
}

function sharedParts(credential: BoxCredential, known: string, repository: string): number {
  if (known === repository) return Number.POSITIVE_INFINITY
  const [ours, theirs] = [known.split('/'), repository.split('/')]
  const different = ours.findIndex((part, index) => part !== theirs[index])
  const shared = different === -1 ? ours.length : different
  // A half if only the host matches, and that is enough: ECR, or a registry whose repositories have no owner in their path.
  return shared === 0 && (credential.type === 'ecr' || ours.length === 1) ? 0.5 : shared
}
