/** What the codes of a failed bake mean: what to do, the reason of a condition, and whether it passes by itself. */

import type { BakeFailure } from '../../apis/bake.ts'
import type { BakeFailureCode } from '../../apis/bake-result.ts'
import { sanitizeText } from '../../lib/plain-text.ts'

/** Interface §7: what to do, for each. */
export const FIXES: Readonly<Record<BakeFailureCode, string>> = {
  wrong_credentials:
    'The user name or the secret is wrong, expired or revoked: give the credential a new secret, or correct its user name. The bake is then repeated.',
  no_pull_right:
    'The login is good, and may not pull this repository: give it the right to, or name another credential. For ECR, the role of the box needs the right to pull, and the policy of the repository must allow it.',
  not_found_or_private:
    'There is no such repository or tag, or it is private and the credential may not see it: registries answer both alike. Correct the image, or name a credential that may pull it.',
  platform_missing:
    'The image is of several platforms, and none of them is that of the box: set spec.platform to one that it has, or push the image for this one. Without spec.platform it is that of the node that bakes.',
  token_expired:
    'The token has expired: give the credential a new secret. For ECR use the type ecr, which asks for a token at every pull.',
  rate_limited:
    'The registry wants fewer requests: the bake is tried again later, twice; or pull with a credential that has a higher limit.',
  tls_failed:
    'The certificate of the registry is not trusted, or what answers speaks no TLS: correct the host in the image, or the certificate.',
  dns_failed: 'No such name is known: correct the host in the image.',
  unreachable: 'The registry does not answer: check that the nodes of the cluster may reach it.',
  no_room:
    'The volume is full: make the claim of spec.output larger, or remove what is not needed. Without a claim, ask the operator for more room (DAVIT_BAKE_SCRATCH).',
  secret_unreadable:
    'The role of the box could not read the secret, or for ECR get a login (ecr:GetAuthorizationToken): compare its policy with status.readerPolicy of the SecretsSettings, and its trust policy with the ServiceAccount.',
  realm_refused:
    'The registry sends the password to a host that is not its own: if that host belongs to it, the operator can allow it (DAVIT_BAKE_REALMS).',
  timed_out:
    'It took longer than the operator allows (DAVIT_BAKE_DEADLINE_SECONDS): make the images smaller, or ask for more time.',
  canceled:
    'It was told to end, or its Job was deleted: ask for another bake. The box may be the new one all the same: its credentials.json names the bake that wrote it.',
  tool_failed: 'The words are those of the tool; the log of the pod has all of them.',
  not_an_organization: 'Ask the operator to label the namespace davit.dev/organization=true.',
  too_many_templates:
    'Delete older templates, or ask the operator for more (DAVIT_MAX_TEMPLATES_PER_ORGANIZATION). The bake then begins.',
  image_refused: 'Correct the reference to the image.',
  catalog_credential: 'Take registryCredentialId away, or make it a service of the kind custom.',
  credential_unknown: 'Make the RegistryCredential, or correct registryCredentialId. The bake then begins.',
  credential_not_ready: 'See the conditions of the credential. The bake begins when it is ready.',
  host_mismatch: 'Name a credential for the host of the image, or correct one of the two.',
  ecr_region_mismatch: 'Name a credential for the region of the image, or correct one of the two.',
  ecr_account_mismatch: 'Name a credential for the account of the image, or correct one of the two.',
  service_account_missing: 'Make the ServiceAccount, or correct spec.instanceRole. The bake then begins.',
  output_missing: 'Make the PersistentVolumeClaim, or correct spec.output. The bake then begins.',
  ca_missing:
    'Make the ConfigMap, or tell the operator, who has named it to all bakes. The bake then begins.',
  bake_image_missing: 'Tell the operator: DAVIT_BAKE_IMAGE must name an image that the nodes can pull.',
  quota: 'Raise the quota of the namespace, or remove what uses it.',
  pod_refused: 'Mend what the words name; the cluster does not take the pod of the bake as it is.',
  suspended:
    'Somebody has suspended the Job, or a queue that does not let it run: mend that, and ask for another bake.',
  no_pod:
    'The Job has made no pod, and nothing says why: ask the operator whether the controller of Jobs runs (kube-controller-manager).',
  unschedulable: 'Mend what the scheduler names, such as room on the nodes, or the volume of spec.output.',
  not_started:
    'Mend what the words name, such as a volume that cannot be mounted; the pod has a node, and did not start there.',
  evicted: 'The node ended the pod. If that goes on, ask the operator for more memory or room for bakes.',
  out_of_memory: 'Ask the operator to give bakes more memory (DAVIT_BAKE_MEMORY).',
  no_result:
    'See the log of the pod, as long as it is there, and ask for another bake. The box may be the new one all the same: its credentials.json names the bake that wrote it.',
}

/** What trying again may help, with nothing changed. A wrong password is not of them: registries lock accounts. */
const RETRYABLE: ReadonlySet<BakeFailureCode> = new Set([
  'evicted',
  'quota',
  'bake_image_missing',
  'no_pod',
  'unschedulable',
  'not_started',
  // It went while the pod was to be made: the next look says what is missing, and goes on when it is there.
  'service_account_missing',
  // AWS does not answer, or has not heard of a new right yet. No registry was asked, so nothing is locked.
  'secret_unreadable',
  'unreachable',
  'dns_failed',
  'rate_limited',
])

/** In all, of one bake. */
export const MAX_ATTEMPTS = 3
const WAITS_MS = [30_000, 120_000]
/** Registries count by the hour. */
const RATE_WAITS_MS = [900_000, 7_200_000]
export const LONGEST_WAIT_MS = Math.max(...WAITS_MS, ...RATE_WAITS_MS)

/** When a failed bake is tried again by itself; undefined: not before something changes. @param attempts made so far */
export function nextAttemptAt(
  { code, attempts }: { code: BakeFailureCode; attempts: number },
  now: number,
): number | undefined {
  const waits = code === 'rate_limited' ? RATE_WAITS_MS : WAITS_MS
  const wait = attempts < MAX_ATTEMPTS ? waits[attempts - 1] : undefined
  return RETRYABLE.has(code) && wait !== undefined ? now + wait : undefined
}

/** One word in camel case, for a condition. */
export function failureReason(code: string): string {
  return code.replace(/(^|_)([a-z])/g, (_match, _start, letter: string) => letter.toUpperCase())
}

const MAX_MESSAGE = 2048

/** With what to do. The message may have line ends, which tools write; nothing else that controls a terminal. */
export function bakeFailure(failure: Omit<BakeFailure, 'fix'>): BakeFailure {
  const { service, step, code, message } = failure
  const lines = message.split('\n').map((line) => sanitizeText(line, MAX_MESSAGE).trimEnd())
  const words = lines.join('\n').trim()
  return {
    ...(service === undefined ? {} : { service }),
    step,
    code,
    message: words.length > MAX_MESSAGE ? words.slice(0, MAX_MESSAGE).toWellFormed() : words,
    fix: FIXES[code],
  }
}
