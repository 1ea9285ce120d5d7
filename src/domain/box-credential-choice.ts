/**
 * Which credential opens a registry or an image, out of the maps that bakes left. A helper of docker is told a host and no
 * more, so it answers only where there is one answer; kubelet names the image.
 */
import type { BoxCredential, BoxCredentials } from '../api/box-credentials.ts'

/** A credential, and the organization that it is of. */
export type OwnedCredential = { organization: string; credential: BoxCredential }

/** `of` is what was found, and absent where there is none; `several` are the ids between which nothing decides. */
export type Choice<T = OwnedCredential> =
  | { of: T; several?: never }
  | { several: readonly string[]; of?: never }
  | { of?: never; several?: never }

/** @param host canonical */
export function chooseByHost(maps: readonly BoxCredentials[], host: string): Choice {
  return onlyOne(ofHost(maps, host))
}

/** Hosts that have one credential, with the user name of each. */
export function hostsOf(maps: readonly BoxCredentials[]): Map<string, string> {
  const hosts = new Set(maps.flatMap(({ credentials }) => credentials.map(({ registry }) => registry)))
  return new Map(
    [...hosts].sort().flatMap((host) => {
      const { of } = chooseByHost(maps, host)
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
  const known = ofHost(maps, host)
  const ranked = known.map((one) => ({ one, ...nearest(one.credential, repository) }))
  const most = Math.max(0, ...ranked.map(({ shared }) => shared))
  const best = ranked.filter(({ shared }) => shared > 0 && shared === most).map(({ one }) => one)
  // Each of them was tried with this very image by a bake, so either will do; the same one is taken each time.
  const { of, several } = onlyOne(most === Number.POSITIVE_INFINITY ? firstOf(best) : best)
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
 * A map is found where somebody put it, and names what is read with a role that may read more: what is not below the
 * organization's own name is not read.
 *
 * @returns what is wrong, in words that follow the credential's id
 */
export function foreignParameter({ organization, credential }: OwnedCredential): string | undefined {
  if (credential.type === 'ecr' || credential.parameter.name.endsWith(`/${organization}/${credential.id}`))
    return undefined
  return `is of ${organization}, and the map names ${credential.parameter.name} for it, which is not`
}

/** ECR has one user name for all. */
function usernameOf(credential: BoxCredential): string {
  return credential.type === 'ecr' ? 'AWS' : credential.username
}

/** The same credential in several maps counts once, as the last bake has read it: versions begin anew when it was deleted. */
function ofHost(maps: readonly BoxCredentials[], host: string): OwnedCredential[] {
  const found = new Map<string, OwnedCredential>()
  for (const { template, credentials } of [...maps].sort(byTime)) {
    for (const credential of credentials.filter(({ registry }) => registry === host)) {
      const key = `${template.namespace}/${credential.id}`
      const before = found.get(key)
      found.set(key, {
        organization: template.namespace,
        credential: withBoth(before?.credential, credential),
      })
    }
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1)).map(([, one]) => one)
}

/** The earlier first; maps of before there were times are the earliest. */
function byTime(a: BoxCredentials, b: BoxCredentials): number {
  return Date.parse(a.bakedAt ?? EARLIEST) - Date.parse(b.bakedAt ?? EARLIEST)
}

const EARLIEST = '1970-01-01T00:00:00Z'

/** What is later, with the repositories of both. */
function withBoth(before: BoxCredential | undefined, later: BoxCredential): BoxCredential {
  const repositories = [...new Set([...(before?.repositories ?? []), ...later.repositories])]
  return { ...later, repositories }
}

function onlyOne(found: readonly OwnedCredential[]): Choice {
  const [first, ...others] = found
  if (first === undefined) return {}
  // Whichever credential of ECR it is: the token is one of the box's own role.
  const same = others.length === 0 || found.every(({ credential }) => credential.type === 'ecr')
  return same ? { of: first } : { several: found.map(nameOf) }
}

function firstOf(found: readonly OwnedCredential[]): OwnedCredential[] {
  return found.slice(0, 1)
}

/** As `acme/rc_ghcr`. */
export function nameOf({ organization, credential }: OwnedCredential): string {
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
