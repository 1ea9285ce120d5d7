import { z } from 'zod'
import { DNS_LABEL } from '../../apis/meta.ts'
import { parseRegistryHost } from '../../apis/registry-host.ts'
import { parseRoleArn } from '../../credentials/aws/names.ts'
import {
  type BoxLogins,
  CloudError,
  cacheSeconds,
  goDuration,
  type PodRole,
} from '../../credentials/cloud.ts'
import type { Clock } from '../../lib/clock.ts'
import { SecretText } from '../../lib/redact.ts'
import { type ImageReference, parseImageReference } from '../image-reference.ts'
import {
  type CredentialScope,
  chooseByImage,
  foreignParameter,
  type HelperResult,
  type ImageCredential,
  loginFailureText,
  type OwnedCredential,
  qualifiedCredentialName,
} from './credential-choice.ts'
import { type BoxMaps, type FoundMaps, summarizeProblems } from './credential-maps.ts'

/**
 * What kubelet asks a credential provider, and what it is answered: `credentialprovider.kubelet.k8s.io/v1`. The contract is
 * Kubernetes' (k8s.io/kubelet/pkg/apis/credentialprovider/v1), so a request may have fields that are not known here.
 */

export const CREDENTIAL_PROVIDER_VERSION = 'credentialprovider.kubelet.k8s.io/v1'

/** Where EKS keeps the role of a service account. */
const ROLE_ANNOTATION = 'eks.amazonaws.com/role-arn'

const credentialProviderRequest = z.object({
  apiVersion: z.literal(CREDENTIAL_PROVIDER_VERSION),
  kind: z.literal('CredentialProviderRequest'),
  /** Without tag and digest. */
  image: z.string().min(1).max(1024),
  /** Where kubelet is configured for it, and the pod has a service account. */
  serviceAccountToken: z.string().exactOptional(),
  /** Those that kubelet is told to hand on. */
  serviceAccountAnnotations: z.record(z.string(), z.string()).exactOptional(),
})
type CredentialProviderRequest = z.infer<typeof credentialProviderRequest>

type CredentialProviderResponse = {
  apiVersion: typeof CREDENTIAL_PROVIDER_VERSION
  kind: 'CredentialProviderResponse'
  /** What kubelet keeps the answer for: this image, or all of its registry. */
  cacheKeyType: 'Image' | 'Registry'
  /** As Go writes a duration, such as `300s`. */
  cacheDuration: string
  /** By registry or repository. Empty: there is no credential for the image. */
  auth: Readonly<Record<string, { username: string; password: string }>>
}

/** The service account token of a pod, as kubelet hands it on: whose it is. STS and nobody here proves that it is genuine. */

export type PodIdentity = { namespace: string; serviceAccount: string }

/** Far above what the API server makes. */
const MAX_TOKEN = 16 * 1024

/** @returns undefined where it is no token of a service account */
export function parsePodIdentity(token: string): PodIdentity | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const [, namespace = '', serviceAccount = ''] =
    /^system:serviceaccount:([^:]+):([^:]+)$/.exec(subjectOf(token) ?? '') ?? []
  return DNS_LABEL.test(namespace) && serviceAccount !== '' ? { namespace, serviceAccount } : undefined
}

function subjectOf(token: string): string | undefined {
  const [, claims, , ...more] = token.split('.')
  if (claims === undefined || more.length > 0) return undefined
  try {
    const { sub } = JSON.parse(Buffer.from(claims, 'base64url').toString('utf8')) as { sub?: unknown }
    return typeof sub === 'string' ? sub : undefined
  } catch {
    return undefined
  }
}

/**
 * A credential provider of kubelet: one request on stdin, one answer on stdout. With a pod's own token it is the pod's role that
 * fetches, and only maps of the pod's own organization are looked at; without one it is the machine's, which then has to be of
 * one organization. What was chosen and why is on stderr, for people who run it by hand; kubelet shows of it what a failure
 * says, in its own log, and the pull goes on without a credential.
 */

export type CredentialProviderDependencies = {
  maps: BoxMaps
  logins: BoxLogins
  clock: Pick<Clock, 'now'>
  /** What kubelet wrote. */
  input(): Promise<string>
  /** How long kubelet keeps a login that nothing ends. */
  keepSeconds: number
  /** What names of parameters begin with. */
  parameterPrefix: string
}

/** Ends the request with these words. */
class ProviderRefusal extends Error {
  override readonly name = 'ProviderRefusal'
}

export async function answerKubelet(world: CredentialProviderDependencies): Promise<HelperResult> {
  try {
    const { response, why } = await answerTo(requestIn(await world.input()), world)
    return { exitCode: 0, stdout: `${JSON.stringify(response)}\n`, stderr: stderrLine(why) }
  } catch (error) {
    if (!(error instanceof ProviderRefusal)) throw error
    return providerFailure(error.message)
  }
}

export function providerFailure(words: string): HelperResult {
  return { exitCode: 1, stdout: '', stderr: stderrLine(words) }
}

function stderrLine(words: string): string {
  return `davit-credential-provider: ${words}\n`
}

/** Nothing of the input is repeated: there is a token in it. */
function requestIn(text: string): CredentialProviderRequest {
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    return refuse(
      'what came on stdin is not JSON; kubelet runs this program with a CredentialProviderRequest',
    )
  }
  const parsed = credentialProviderRequest.safeParse(json)
  if (parsed.success) return parsed.data
  const fields = [...new Set(parsed.error.issues.map(({ path }) => path.join('.') || 'the whole'))].join(', ')
  return refuse(`the request is not one of ${CREDENTIAL_PROVIDER_VERSION}: ${fields}`)
}

type Answered = { response: CredentialProviderResponse; why: string }

async function answerTo(
  request: CredentialProviderRequest,
  world: CredentialProviderDependencies,
): Promise<Answered> {
  const { reference, problem } = parseImageReference(request.image)
  if (reference === undefined) return { response: NOTHING, why: `nothing for an image that ${problem}` }
  const { registry, repository } = reference
  const namespace = namespaceOf(request)
  const { maps, problems } = await world.maps.read()
  const found = { maps: mapsForNamespace(maps, namespace), problems }
  const chosen = choose(found, reference, world.parameterPrefix)
  if (chosen === undefined)
    return { response: NOTHING, why: `nothing for ${registry}/${repository}: no map names it` }
  const login = await fetchLogin(world.logins, chosen, roleOf(request, namespace))
  const seconds = cacheSeconds(login, { now: world.clock.now(), seconds: world.keepSeconds })
  const { username, password } = login
  const response: CredentialProviderResponse = {
    ...NOTHING,
    cacheKeyType: chosen.scope === 'registry' ? 'Registry' : 'Image',
    cacheDuration: goDuration(seconds),
    auth: { [authKey(request.image, reference, chosen.scope)]: { username, password: password.reveal() } },
  }
  return {
    response,
    why: `${registry}/${repository} is pulled with ${qualifiedCredentialName(chosen)}, ${chosen.why}`,
  }
}

function choose(
  found: FoundMaps,
  { registry: host, repository }: ImageReference,
  prefix: string,
): ImageCredential | undefined {
  const { of, several } = chooseByImage(found.maps, { host, repository })
  if (several !== undefined) {
    return refuse(
      `${host}/${repository} is an image of no template here, and ${several.join(' and ')} are both as near to it; name it in a template`,
    )
  }
  if (of === undefined) {
    return found.problems.length === 0
      ? undefined
      : refuse(`no map names ${host}/${repository}, and ${summarizeProblems(found.problems)}`)
  }
  const foreign = foreignParameter(of, prefix)
  return foreign === undefined ? of : refuse(`${of.credential.id} ${foreign}`)
}

/** Not kept by kubelet: the next bake may bring a credential for it. */
const NOTHING: CredentialProviderResponse = {
  apiVersion: CREDENTIAL_PROVIDER_VERSION,
  kind: 'CredentialProviderResponse',
  cacheKeyType: 'Image',
  cacheDuration: goDuration(0),
  auth: {},
}

/** Of the pod; undefined where kubelet does not say. */
function namespaceOf({ serviceAccountToken: token }: CredentialProviderRequest): string | undefined {
  if (token === undefined || token === '') return undefined
  const pod = parsePodIdentity(token)
  return pod === undefined ? refuse('serviceAccountToken is no token of a service account') : pod.namespace
}

function mapsForNamespace(maps: FoundMaps['maps'], namespace: string | undefined): FoundMaps['maps'] {
  if (namespace !== undefined) return maps.filter(({ template }) => template.namespace === namespace)
  const organizations = [...new Set(maps.map(({ template }) => template.namespace))]
  if (organizations.length < 2) return maps
  return refuse(
    `there are maps of several organizations here (${organizations.sort().join(', ')}), and kubelet does not say whose pod it is: set tokenAttributes in its CredentialProviderConfig`,
  )
}

function roleOf(
  { serviceAccountToken, serviceAccountAnnotations }: CredentialProviderRequest,
  namespace: string | undefined,
): PodRole | undefined {
  const roleArn = serviceAccountAnnotations?.[ROLE_ANNOTATION]
  if (namespace === undefined || serviceAccountToken === undefined || roleArn === undefined) return undefined
  if (parseRoleArn(roleArn) === undefined)
    return refuse(`the annotation ${ROLE_ANNOTATION} of the service account is not the ARN of a role`)
  return { roleArn, token: new SecretText(serviceAccountToken), namespace }
}

async function fetchLogin(logins: BoxLogins, { credential }: OwnedCredential, pod: PodRole | undefined) {
  try {
    return await logins.login(credential, pod)
  } catch (error) {
    if (!(error instanceof CloudError)) throw error
    return refuse(loginFailureText({ credential, roleArn: pod?.roleArn, failure: error }))
  }
}

/** With the host in kubelet's own words, by which it compares. */
function authKey(image: string, reference: ImageReference, scope: CredentialScope): string {
  const [first = ''] = image.split('/', 1)
  const host = parseRegistryHost(first).host === reference.registry ? first : reference.registry
  return scope === 'registry' ? host : `${host}/${reference.repository}`
}

function refuse(words: string): never {
  throw new ProviderRefusal(words)
}
