import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { organizationPath } from '../../credentials/aws/names.ts'
import { type CloudFailure, failureText } from '../../credentials/cloud.ts'

/** What a helper prints and ends with. */
export type HelperResult = {
  exitCode: 0 | 1
  stdout: string
  stderr: string
}

/** Why a login could not be fetched, with what to change, in one line: it is read in the output of docker, podman or kubelet. */

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

/**
 * Which credential opens a registry or an image, out of the maps that bakes left. A helper of docker is told a host and no
 * more, so it answers only where there is one answer; kubelet names the image.
 */

/** A credential, and the organization that it is of. */
export type OwnedCredential = { organization: string; credential: BoxCredential }

/** `of` is what was found, and absent where there is none; `several` are the ids between which nothing decides. */
export type Choice<T = OwnedCredential> =
  | { of: T; several?: never }
  | { several: readonly string[]; of?: never }
  | { of?: never; several?: never }

/** @param host canonical */
export function chooseByHost(maps: readonly BoxCredentials[], host: string): Choice {
  return onlyOne(knownIn(maps).filter(({ credential }) => credential.registry === host))
}

/** Hosts that have one credential, with the user name of each. */
export function usernamesByHost(maps: readonly BoxCredentials[]): Map<string, string> {
  const byHost = Map.groupBy(knownIn(maps), ({ credential }) => credential.registry)
  return new Map(
    [...byHost.keys()].sort().flatMap((host) => {
      const { of } = onlyOne(byHost.get(host) ?? [])
      return of === undefined ? [] : [[host, usernameOf(of.credential)] as const]
    }),
  )
}

/** What an answer holds for: the whole host, or this repository. */
export type CredentialScope = 'registry' | 'repository'
/** `why` follows the name of the credential, in words. */
export type ImageCredential = OwnedCredential & { scope: CredentialScope; why: string }
export type ImageChoice = Choice<ImageCredential>

/**
 * An image of a box has the credential that its bake used. Another image of the same registry has that of the box's image with
 * which it shares the most parts of its path, counted from the left, and at least one; a token of ECR opens the whole host.
 *
 * @param maps of one organization
 * @param host canonical
 */
export function chooseByImage(
  maps: readonly BoxCredentials[],
  { host, repository }: { host: string; repository: string },
): ImageChoice {
  const known = knownIn(maps).filter(({ credential }) => credential.registry === host)
  const ranked = known.map((one) => ({ one, ...nearest(one.credential, repository) }))
  const most = Math.max(0, ...ranked.map(({ shared }) => shared))
  const best = ranked.filter(({ shared }) => shared > 0 && shared === most).map(({ one }) => one)
  const { of, several } = onlyOne(most === Number.POSITIVE_INFINITY ? lastUsed(best, repository) : best)
  if (several !== undefined) return { several }
  if (of === undefined) return {}
  const opensHost = of.credential.type === 'ecr' && onlyOne(known).of !== undefined
  const near = nearest(of.credential, repository).repository
  return { of: { ...of, scope: opensHost ? 'registry' : 'repository', why: whyOf(repository, near) } }
}

function whyOf(repository: string, near: string): string {
  return near === repository
    ? 'with which a bake pulled this image'
    : `with which a bake pulled the image that is nearest to it, ${near}`
}

/**
 * A map is found where somebody put it, and names what is read with a role that may read more: nothing is read but the one
 * parameter that Davit has for this credential.
 *
 * @param prefix of the operator, as `/davit`
 * @returns what is wrong, in words that follow the credential's id
 */
export function foreignParameter(
  { organization, credential }: OwnedCredential,
  prefix: string,
): string | undefined {
  if (credential.type === 'ecr') return undefined
  const own = `${organizationPath({ prefix, organization })}/${credential.id}`
  if (credential.parameter.name === own) return undefined
  return `is stored at ${own}, and the map names ${credential.parameter.name} for it; DAVIT_PARAMETER_PREFIX says what such names begin with`
}

/** ECR has one user name for all. */
function usernameOf(credential: BoxCredential): string {
  return credential.type === 'ecr' ? 'AWS' : credential.username
}

/** A credential out of all maps, as the last of them says. */
type Known = OwnedCredential & {
  /** When that was decided; milliseconds since 1970. */
  at: number
  /** Its images, and when the last of their bakes was decided. */
  usedAt: ReadonlyMap<string, number>
}

/** The same credential in several maps counts once. */
function knownIn(maps: readonly BoxCredentials[]): Known[] {
  const found = new Map<string, Known>()
  for (const map of [...maps].sort((a, b) => timeOf(a) - timeOf(b))) {
    const [organization, at] = [map.template.namespace, timeOf(map)]
    for (const credential of map.credentials) {
      const usedAt = new Map(credential.repositories.map((repository) => [repository, at]))
      const key = `${organization}/${credential.id}`
      found.set(key, withBefore({ organization, credential, at, usedAt }, found.get(key)))
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one)
}

/** When the controller said what is in a map: one clock for all, where each bake has its own. */
function timeOf({ orderedAt, bakedAt }: BoxCredentials): number {
  return Date.parse(orderedAt ?? bakedAt ?? EARLIEST)
}

/** Of maps of before there were times. */
const EARLIEST = '1970-01-01T00:00:00Z'

/**
 * What is later counts, with the images of both. Versions of a secret begin anew when it was removed, and when the credential
 * was deleted and made again, so they say less than the time. A credential is for one registry: in the place of one that
 * was for another one its name leads to a secret that this one must not get.
 */
function withBefore(next: Known, before: Known | undefined): Known {
  if (before === undefined) return next
  const last = isBehind(next, before) ? before : next
  const { registry } = last.credential
  const usedAt = new Map(
    [before, next].flatMap((one) => (one.credential.registry === registry ? [...one.usedAt] : [])),
  )
  return { ...last, usedAt, credential: { ...last.credential, repositories: [...usedAt.keys()] } }
}

/** @param before not later than `next`, by the clock */
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
  // Whichever credential of ECR it is: the token is one of the box's own role.
  const same = others.length === 0 || found.every(({ credential }) => credential.type === 'ecr')
  return same ? { of: first } : { several: found.map(qualifiedCredentialName) }
}

/** Each was tried with this very image by a bake, and the last bake knows best; the same one is taken each time. */
function lastUsed(found: readonly Known[], repository: string): Known[] {
  const usedAt = (one: Known) => one.usedAt.get(repository) ?? 0
  return [...found].sort((a, b) => usedAt(b) - usedAt(a)).slice(0, 1)
}

/** As `acme/rc_ghcr`. */
export function qualifiedCredentialName({ organization, credential }: OwnedCredential): string {
  return `${organization}/${credential.id}`
}

/** The image of a box that is nearest, and how near; infinitely so where it is the image itself. */
function nearest(credential: BoxCredential, repository: string): { repository: string; shared: number } {
  return credential.repositories
    .map((known) => ({ repository: known, shared: sharedParts(credential, known, repository) }))
    .reduce((best, next) => (next.shared > best.shared ? next : best))
}

function sharedParts(credential: BoxCredential, known: string, repository: string): number {
  if (known === repository) return Number.POSITIVE_INFINITY
  const [ours, theirs] = [known.split('/'), repository.split('/')]
  const differs = ours.findIndex((part, at) => part !== theirs[at])
  const shared = differs === -1 ? ours.length : differs
  // A half where the host alone speaks for it: a registry of one account, or one whose repositories have no owner before them.
  return shared === 0 && (credential.type === 'ecr' || ours.length === 1) ? 0.5 : shared
}
