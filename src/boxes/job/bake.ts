import { type BakeOrder, type BakeResult, MAX_RESULT_BYTES } from '../../apis/bake.ts'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { type ImageReference, parseImageReference } from '../image-reference.ts'
import { type BoxFolder, StoreError } from '../layout/store.ts'
import { failureOfProbe } from '../registry/failure.ts'
import type { FoundManifest, ProbeResult, RegistryLogin } from '../registry/outcome.ts'
import {
  type BakeContext,
  type BakeDependencies,
  type BakeFailure,
  BakeFailureError,
  isFound,
  LoginCache,
  type OrderedService,
  probeImage,
} from './probe.ts'
import { pullImage } from './pull.ts'
import { SecretRedactor } from './redaction.ts'
import { CopyError } from './skopeo.ts'

/** The longest that JSON makes of one UTF-16 unit. */
const LONGEST_ESCAPE = 6

/**
 * A result as a termination message, which a kubelet cuts off after 4,096 bytes: the words of the tool give way. The limits of
 * names and services leave room for all the rest.
 */
export function encodeBakeResult(result: BakeResult): string {
  let encoded = JSON.stringify(result)
  if (!result.failure) return encoded
  let { message } = result.failure
  while (Buffer.byteLength(encoded) > MAX_RESULT_BYTES && message !== '') {
    const tooMany = Buffer.byteLength(encoded) - MAX_RESULT_BYTES
    const kept = message.slice(0, -Math.ceil(tooMany / LONGEST_ESCAPE))
    message = kept.replace(/[\ud800-\udbff]$/, '')
    encoded = JSON.stringify({ ...result, failure: { ...result.failure, message } })
  }
  return encoded
}

/** Which credential opens which repository, for the running box: without a secret. @param now in milliseconds */
function buildCredentialMap({ template, bake, services, orderedAt }: BakeOrder, now: number): BoxCredentials {
  const credentials = new Map<string, BoxCredential>()
  for (const { image, credential } of services) {
    const { reference } = parseImageReference(image)
    if (!credential || !reference) continue
    const known = credentials.get(credential.id)
    const repositories = new Set([...(known?.repositories ?? []), reference.repository])
    const { id, uid, generation, registry } = credential
    const shared = {
      id,
      ...(uid === undefined ? {} : { uid }),
      ...(generation === undefined ? {} : { generation }),
      registry,
      repositories: [...repositories].sort(),
    }
    const { username, parameter } = credential
    if (credential.type === 'ecr') credentials.set(credential.id, { ...shared, type: 'ecr' })
    else if (username !== undefined && parameter !== undefined)
      credentials.set(credential.id, { ...shared, type: 'token', username, parameter })
  }
  const { namespace, name } = template
  const bakedAt = new Date(now).toISOString()
  return {
    version: 1,
    template: { namespace, name },
    bake,
    ...(orderedAt === undefined ? {} : { orderedAt }),
    bakedAt,
    credentials: [...credentials.values()],
  }
}

/** One bake, from what the order says to a box in its place: all services of it, or nothing. */

/** Why the signal aborts. */
export type BakeInterruption = 'canceled' | 'timed_out'

type ServiceResult = BakeResult['services'][number]

/** A service on its way. */
type Item = {
  service: OrderedService
  reference: ImageReference
  login: RegistryLogin | undefined
  probed: ProbeResult | undefined
  result: ServiceResult
}

/**
 * Never throws: whatever goes wrong is in the result, and then nothing is left behind.
 * @param signal aborts with a `BakeEnd` as its reason
 */
export async function bake(
  parts: BakeDependencies,
  order: BakeOrder,
  signal: AbortSignal,
): Promise<BakeResult> {
  const context: BakeContext = { ...parts, order, signal, redactor: new SecretRedactor() }
  const items: Item[] = []
  try {
    const folder = await parts.store.open()
    try {
      await prepare(context, items)
      for (const item of items) await probe(context, items, item)
      // What is known to fail comes first, so that nothing is pulled for it.
      const troubled = items.filter(({ probed }) => !probed || !isFound(probed))
      for (const item of new Set([...troubled, ...items])) await pullService(context, folder, item)
      await folder.publish(items.map(storedService), buildCredentialMap(order, parts.clock.now()))
    } finally {
      await discard(context, folder)
    }
    return { version: 1, state: 'succeeded', services: items.map(({ result }) => result) }
  } catch (error) {
    const failure = failureOf(context, error)
    parts.log.error(`The bake failed: ${failure.code}`, failure)
    // Nothing was kept, so nothing was pulled.
    const services = items.map(({ result: { digest: _, ...rest } }) => rest)
    return { version: 1, state: 'failed', services, failure }
  }
}

/** What cannot be removed counts for nothing, and is no reason to hide what the bake came to. */
async function discard({ log }: BakeContext, folder: BoxFolder): Promise<void> {
  try {
    await folder.discard()
  } catch (error) {
    log.warn('What the bake has left could not be removed', { error })
  }
}

/** All secrets before anything is asked of a registry: what is missing is known at once. */
async function prepare(context: BakeContext, items: Item[]): Promise<void> {
  const logins = new LoginCache(context)
  for (const service of context.order.services) {
    const { reference, problem } = parseImageReference(service.image)
    if (!reference)
      throw new BakeFailureError({
        service: service.name,
        step: 'pull',
        code: 'tool_failed',
        message: `image ${problem}`,
      })
    const result: ServiceResult = { name: service.name }
    items.push({ service, reference, login: undefined, probed: undefined, result })
  }
  for (const item of items) item.login = await readLogin(context, logins, item)
}

async function readLogin({ clock }: BakeContext, logins: LoginCache, { service, result }: Item) {
  try {
    return await logins.get(service)
  } catch (error) {
    if (error instanceof BakeFailureError)
      result.verified = { at: new Date(clock.now()).toISOString(), ok: false, code: 'secret_unreadable' }
    throw error
  }
}

/** A login that was refused is not shown to the registry again by another service: it may lock its user out. */
async function probe(context: BakeContext, items: readonly Item[], item: Item): Promise<void> {
  const { service } = item
  const id = service.credential?.id
  const refused = items.some(
    ({ service: other, result }) =>
      other !== service && other.credential?.id === id && result.verified?.code === 'wrong_credentials',
  )
  if (id !== undefined && refused) return
  item.probed = await probeAndRecord(context, item)
}

/** What the registry says of the image now, and by that of the login. */
async function probeAndRecord(context: BakeContext, item: Item): Promise<ProbeResult> {
  const { service, login, reference } = item
  const { result, at } = await probeImage(context, probeTarget(reference), login)
  const found = isFound(result)
  const code = found ? undefined : failureOfProbe(result, login !== undefined).code
  context.log.info(`${service.name}: the registry ${found ? `has ${result.digest}` : `says no (${code})`}`, {
    service: service.name,
    image: service.image,
    credential: service.credential?.id,
    ...(found ? { digest: result.digest } : {}),
  })
  if (login && (!found || result.loggedIn))
    item.result.verified = {
      at: new Date(at).toISOString(),
      ok: found,
      ...(code === undefined ? {} : { code }),
    }
  return result
}

/** What the registry refused before goes to the tool all the same, whose words a status shows. */
async function pullService(context: BakeContext, folder: BoxFolder, item: Item): Promise<void> {
  const { service, login, reference } = item
  const pull = async (probed: ProbeResult) => {
    if (probed.kind === 'realm-refused' || isForbidden(probed)) throw refusedByPolicy(item, probed)
    const image = isFound(probed) ? byDigest(reference, probed.digest) : service.image
    await pullImage(context, folder, { service, registry: reference.registry, login, probed, image })
    return isFound(probed) ? probed.digest : undefined
  }
  const digest = await pull(item.probed ?? (await probeAndRecord(context, item)))
  // It said no, and then yes to the tool. What a tag stood for in that moment nobody can tell: so once more, by its digest.
  item.result.digest = digest ?? (await pull(await probeAgain(context, item)))
}

/** @throws BakeFailureError where the registry still says no */
async function probeAgain(context: BakeContext, item: Item): Promise<FoundManifest> {
  const { service, login } = item
  const result = await probeAndRecord(context, item)
  if (isFound(result)) return result
  const { code, step } = failureOfProbe(result, login !== undefined)
  const message = 'words' in result ? result.words : result.reason
  throw new BakeFailureError({ service: service.name, step, code, message })
}

function isForbidden(probed: ProbeResult): boolean {
  return probed.kind === 'unreachable' && probed.failure === 'forbidden-address'
}

/** The tool does not get the login, so the words are ours. */
function refusedByPolicy({ service, login, reference }: Item, probed: ProbeResult): BakeFailureError {
  const { code, step } = failureOfProbe(probed, login !== undefined)
  const message =
    probed.kind === 'realm-refused'
      ? `${reference.registry} sends logins to ${probed.realm}, and no login goes there: ${probed.reason}`
      : `${reference.registry} is at an address that no bake connects to`
  return new BakeFailureError({ service: service.name, step, code, message })
}

function probeTarget({ registry, repository, tag, digest }: ImageReference) {
  return { registry, repository, reference: digest ?? tag ?? 'latest' }
}

function byDigest({ registry, repository }: ImageReference, digest: string): string {
  return `${registry}/${repository}@${digest}`
}

function storedService({ service: { name, image }, result: { digest = '' } }: Item) {
  return { name, image, digest }
}

function failureOf({ signal, redactor }: BakeContext, error: unknown): BakeFailure {
  if (signal.aborted) {
    const code = signal.reason === 'timed_out' ? 'timed_out' : 'canceled'
    const message = code === 'timed_out' ? 'The bake took longer than it may.' : 'The bake was told to end.'
    return { step: 'pull', code, message }
  }
  const message = redactor.redactForStatus(error instanceof Error ? error.message : String(error))
  if (error instanceof BakeFailureError) return { ...error.failure, message }
  if (error instanceof StoreError) {
    return { step: 'store', code: error.trouble === 'room' ? 'no_room' : 'tool_failed', message }
  }
  return { step: error instanceof CopyError ? 'pull' : 'store', code: 'tool_failed', message }
}
