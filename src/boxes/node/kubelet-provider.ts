/**
 * A kubelet credential provider (k8s.io/kubelet/pkg/apis/credentialprovider/v1): one request on stdin, one response on stdout. With a
 * pod's token it fetches with the pod's role and uses only credentials files of the pod's organization. Without one it uses the machine's
 * role, and all files must be of one organization. stderr explains the choice to people; kubelet logs it when the provider fails, and
 * then pulls without a credential.
 */
import { z } from 'zod'
import { ROLE_ARN_ANNOTATION } from '../../apis/core-kinds.ts'
import { DNS_LABEL } from '../../apis/meta.ts'
import { parseRegistryHost } from '../../apis/registry-host.ts'
import { parseRoleArn } from '../../credentials/aws/names.ts'
import type { BoxLogins, PodRole } from '../../credentials/cloud.ts'
import { fieldOf, tryParseJson } from '../../lib/json.ts'
import { SecretText } from '../../lib/redact.ts'
import type { Clock } from '../../lib/time.ts'
import { type ImageReference, parseImageReference } from '../image-reference.ts'
import {
  type CredentialScope,
  chooseByImage,
  fetchLogin,
  foreignParameter,
  HelperRefusal,
  type HelperResult,
  type ImageCredential,
  qualifiedCredentialName,
  refuse,
} from './credential-choice.ts'
import { type BoxMaps, type FoundMaps, summarizeProblems } from './credential-maps.ts'

export const CREDENTIAL_PROVIDER_VERSION = 'credentialprovider.kubelet.k8s.io/v1'

/** Unknown fields are ignored. */
const credentialProviderRequest = z.object({
  apiVersion: z.literal(CREDENTIAL_PROVIDER_VERSION),
  kind: z.literal('CredentialProviderRequest'),
  /** Without tag and digest. */
  image: z.string().min(1).max(1024),
  /** If kubelet is configured to send it and the pod has a ServiceAccount. */
  serviceAccountToken: z.string().exactOptional(),
  serviceAccountAnnotations: z.record(z.string(), z.string()).exactOptional(),
})
type CredentialProviderRequest = z.infer<typeof credentialProviderRequest>

type CredentialProviderResponse = {
  apiVersion: typeof CREDENTIAL_PROVIDER_VERSION
  kind: 'CredentialProviderResponse'
  cacheKeyType: 'Image' | 'Registry'
  /** A Go duration such as `300s`. */
  cacheDuration: string
  /** By registry or repository. Empty if there is no credential for the image. */
  auth: Readonly<Record<string, { username: string; password: string }>>
}

const MAX_TOKEN = 16 * 1024

/** Whose ServiceAccount token this is, or undefined. It is not verified here: STS does that. */
export function parsePodIdentity(token: string): { namespace: string; serviceAccount: string } | undefined {
  if (token.length > MAX_TOKEN) return undefined
  const [, namespace = '', serviceAccount = ''] =
    /^system:serviceaccount:([^:]+):([^:]+)$/.exec(tokenSubject(token) ?? '') ?? []
  return DNS_LABEL.test(namespace) && serviceAccount !== '' ? { namespace, serviceAccount } : undefined
}

function tokenSubject(token: string): string | undefined {
  const [, claims, , ...more] = token.split('.')
  if (claims === undefined || more.length > 0) return undefined
  const sub = fieldOf(tryParseJson(Buffer.from(claims, 'base64url').toString('utf8')), 'sub')
  return typeof sub === 'string' ? sub : undefined
}

type CredentialProviderDependencies = {
  maps: BoxMaps
  logins: BoxLogins
  clock: Pick<Clock, 'now'>
  input(): Promise<string>
  /** How long kubelet may cache a login that does not expire. */
  keepSeconds: number
  parameterPrefix: string
}

export async function answerKubelet(dependencies: CredentialProviderDependencies): Promise<HelperResult> {
  try {
    const { response, why } = await respond(parseRequest(await dependencies.input()), dependencies)
    return { exitCode: 0, stdout: `${JSON.stringify(response)}\n`, stderr: stderrLine(why) }
  } catch (error) {
    if (!(error instanceof HelperRefusal)) throw error
    return providerFailure(error.message)
  }
}

export function providerFailure(message: string): HelperResult {
  return { exitCode: 1, stdout: '', stderr: stderrLine(message) }
}

function stderrLine(message: string): string {
  return `davit-credential-provider: ${message}\n`
}

/** Errors never quote the input, which contains a token. */
function parseRequest(text: string): CredentialProviderRequest {
  const json = tryParseJson(text)
  if (json === undefined)
    return refuse('stdin is not valid JSON; kubelet must run this program with a CredentialProviderRequest')
  const parsed = credentialProviderRequest.safeParse(json)
  if (parsed.success) return parsed.data
  const fields = [
    ...new Set(parsed.error.issues.map(({ path }) => path.join('.') || 'the whole request')),
  ].join(', ')
  return refuse(`the request is not valid for ${CREDENTIAL_PROVIDER_VERSION}: ${fields}`)
}

async function respond(
  request: CredentialProviderRequest,
  { maps: boxMaps, logins, clock, keepSeconds, parameterPrefix }: CredentialProviderDependencies,
): Promise<{ response: CredentialProviderResponse; why: string }> {
  const { reference, problem } = parseImageReference(request.image)
  if (reference === undefined)
    return { response: NOTHING, why: `no credential: the image reference ${problem}` }
  const { registry, repository } = reference
  const namespace = podNamespace(request)
  const { maps, problems } = await boxMaps.read()
  const found = { maps: mapsForNamespace(maps, namespace), problems }
  const chosen = choose(found, reference, parameterPrefix)
  if (chosen === undefined)
    return {
      response: NOTHING,
      why: `no credential for ${registry}/${repository}: no credentials file matches it`,
    }
  const login = await fetchLogin(logins, chosen, podRole(request, namespace))
  const seconds = cacheSeconds(login, { now: clock.now(), seconds: keepSeconds })
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
      `${host}/${repository} is not an image of any template here, and ${several.join(' and ')} match it equally well; add it to a template`,
    )
  }
  if (of === undefined) {
    return found.problems.length === 0
      ? undefined
      : refuse(`no credentials file matches ${host}/${repository}, and ${summarizeProblems(found.problems)}`)
  }
  const foreign = foreignParameter(of, prefix)
  return foreign === undefined ? of : refuse(`${of.credential.id} ${foreign}`)
}

/** Not cached: the next bake may bring a credential. */
const NOTHING: CredentialProviderResponse = {
  apiVersion: CREDENTIAL_PROVIDER_VERSION,
  kind: 'CredentialProviderResponse',
  cacheKeyType: 'Image',
  cacheDuration: goDuration(0),
  auth: {},
}

/** Undefined if kubelet sent no token. */
function podNamespace({ serviceAccountToken: token }: CredentialProviderRequest): string | undefined {
  if (token === undefined || token === '') return undefined
  const pod = parsePodIdentity(token)
  return pod === undefined ? refuse('serviceAccountToken is not a ServiceAccount token') : pod.namespace
}

function mapsForNamespace(maps: FoundMaps['maps'], namespace: string | undefined): FoundMaps['maps'] {
  if (namespace !== undefined) return maps.filter(({ template }) => template.namespace === namespace)
  const organizations = [...new Set(maps.map(({ template }) => template.namespace))]
  if (organizations.length < 2) return maps
  return refuse(
    `this machine has credentials files of several organizations (${organizations.sort().join(', ')}), and kubelet does not identify the pod; set tokenAttributes in its CredentialProviderConfig`,
  )
}

function podRole(
  { serviceAccountToken, serviceAccountAnnotations }: CredentialProviderRequest,
  namespace: string | undefined,
): PodRole | undefined {
  const roleArn = serviceAccountAnnotations?.[ROLE_ARN_ANNOTATION]
  if (namespace === undefined || serviceAccountToken === undefined || roleArn === undefined) return undefined
  if (parseRoleArn(roleArn) === undefined)
    return refuse(`the annotation ${ROLE_ARN_ANNOTATION} of the ServiceAccount is not a role ARN`)
  return { roleArn, token: new SecretText(serviceAccountToken), namespace }
}

/** Uses the host as kubelet wrote it, since kubelet compares the text. */
function authKey(image: string, reference: ImageReference, scope: CredentialScope): string {
  const [first = ''] = image.split('/', 1)
  const host = parseRegistryHost(first).host === reference.registry ? first : reference.registry
  return scope === 'registry' ? host : `${host}/${reference.repository}`
}

/** Clocks differ, and a pull takes a while. */
const SPARE_SECONDS = 60
/** Half of the longest lifetime; only a wrong clock shows more. */
const MAX_SECONDS = 6 * 3600

/**
 * How long kubelet may cache a login: half of its remaining life, so that a pull that starts with it can finish. A login that never
 * expires is cached for `seconds`, so that a replaced secret is not used for longer.
 */
export function cacheSeconds(login: { expiresAt?: number }, of: { now: number; seconds: number }): number {
  if (login.expiresAt === undefined) return of.seconds
  const left = Math.floor((login.expiresAt - of.now) / 1000)
  return left <= SPARE_SECONDS ? 0 : Math.min(Math.floor(left / 2), MAX_SECONDS)
}

/** In the syntax of Go durations. */
export function goDuration(seconds: number): string {
  return `${seconds}s`
}
