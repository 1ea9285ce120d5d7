/** What a bake has seen of a credential at the point of use: a fact in its status, from which the condition `Verified` follows. */

import type { BakedService } from '../../apis/bake.ts'
import type { BakeFailureCode, BakeResult } from '../../apis/bake-result.ts'
import type { CredentialVerification, RegistryCredential } from '../../apis/registry-credential.ts'
import { failureReason } from '../../boxes/controller/bake-failure.ts'
import type { ConditionUpdate } from '../../kube/conditions.ts'

/** Codes that speak of the credential. The others are of the network, or of the registry. */
const VERDICTS: ReadonlySet<string> = new Set<BakeFailureCode>([
  'wrong_credentials',
  'no_pull_right',
  'token_expired',
])

/**
 * What the services of a bake have seen, by the id of their credentials; the newest of each.
 *
 * @param now a node whose clock is ahead would else have the last word for as long as it is
 */
export function verificationsOf(
  bake: { template: string; services: readonly BakedService[] },
  results: BakeResult['services'],
  now: number,
): Map<string, CredentialVerification> {
  const found = new Map<string, CredentialVerification>()
  for (const { name, verified } of results) {
    const service = bake.services.find((each) => each.name === name)
    if (!verified || !service?.credential) continue
    const seen = verificationOf(bake.template, { ...service, credential: service.credential }, verified, now)
    const { id } = service.credential
    if (saysMore(seen, found.get(id))) found.set(id, seen)
  }
  return found
}

function verificationOf(
  template: string,
  { image, credential }: BakedService & { credential: NonNullable<BakedService['credential']> },
  { at, ok, code }: NonNullable<BakeResult['services'][number]['verified']>,
  now: number,
): CredentialVerification {
  const { parameterVersion, generation } = credential
  return {
    at: Date.parse(at) > now ? new Date(now).toISOString() : at,
    ok,
    ...(code === undefined ? {} : { code }),
    repository: repositoryOf(image),
    template,
    ...(parameterVersion === undefined ? {} : { parameterVersion }),
    generation,
  }
}

/** One that a repository has refused is not called good by another of the same moment. */
function saysMore(seen: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const later = Date.parse(seen.at) - Date.parse(held.at)
  return later === 0 ? held.ok : later > 0
}

/** Without tag and digest. */
function repositoryOf(image: string): string {
  return image.replace(/@.*$/, '').replace(/:[^/]*$/, '')
}

/**
 * Whether it says anything new. What was seen of a newer secret or spec counts before the time, which is that of a node: its clock may be
 * behind that of the node before.
 */
export function isNewer(found: CredentialVerification, held: CredentialVerification | undefined): boolean {
  if (held === undefined) return true
  const versions = (found.parameterVersion ?? 0) - (held.parameterVersion ?? 0)
  const generations = (found.generation ?? 0) - (held.generation ?? 0)
  const ahead = generations || versions
  return ahead === 0 ? Date.parse(found.at) > Date.parse(held.at) : ahead > 0
}

type Answer = Omit<ConditionUpdate, 'type'>

const NOT_CHECKED: Answer = {
  status: 'Unknown',
  reason: 'NotChecked',
  message: 'Nobody has asked the registry yet: a bake does.',
}

/** Status, reason and words of the condition. */
export function verifiedFinding({
  metadata,
  status,
}: Pick<RegistryCredential, 'metadata' | 'status'>): Answer {
  const seen = status?.verified
  if (!seen) return NOT_CHECKED
  const { at, ok, code, repository, template, parameterVersion } = seen
  const where = `${repository}, at ${at}, by the bake of ${template}`
  const isCurrent = seen.generation === metadata.generation && parameterVersion === status?.parameter?.version
  if (!isCurrent)
    return {
      status: 'Unknown',
      reason: 'ChangedSince',
      message: `It has changed since it was ${ok ? 'taken' : 'refused'} for ${where}.`,
    }
  if (code === 'secret_unreadable')
    return {
      status: 'Unknown',
      reason: failureReason(code),
      message: `No registry was asked, since the box could not read the secret: for ${where}.`,
    }
  if (ok) return { status: 'True', reason: 'Pulled', message: `The registry took it for ${where}.` }
  if (code === undefined || !VERDICTS.has(code))
    return {
      status: 'Unknown',
      reason: code === undefined ? 'NoAnswer' : failureReason(code),
      message: `The registry said nothing of it: ${where}.`,
    }
  return { status: 'False', reason: failureReason(code), message: `It was refused for ${where}.` }
}
