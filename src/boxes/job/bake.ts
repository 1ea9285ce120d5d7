/** One bake in its pod: takes an order, pulls the images of all services, and publishes the box as a whole or not at all. */

import { type BakeOrder, type BakeResult, MAX_RESULT_BYTES } from '../../apis/bake.ts'
import type { BoxCredential, BoxCredentials } from '../../apis/box-credentials.ts'
import { type ImageReference, parseImageReference } from '../image-reference.ts'
import { type BoxFolder, StoreError } from '../layout/store.ts'
import {
  type FoundManifest,
  failureOfProbe,
  type ProbeResult,
  type RegistryLogin,
} from '../registry/outcome.ts'
import {
  type BakeContext,
  type BakeDependencies,
  BakeFailureError,
  isFound,
  LoginCache,
  type OrderedService,
  probeImage,
} from './probe.ts'
import { pullImage } from './pull.ts'
import { SecretRedactor } from './redaction.ts'
import { CopyError } from './skopeo.ts'

/** JSON escapes one UTF-16 unit with at most six characters. */
const LONGEST_ESCAPE = 6

/**
 * Encodes a result as a termination message, which kubelet cuts off after 4,096 bytes. Shortens the message of the failure to fit; the
 * limits of names and services bound the rest.
 */
export function encodeBakeResult(result: BakeResult): string {
  let encoded = JSON.stringify(result)
  if (!result.failure) return encoded
  let { message } = result.failure
  while (Buffer.byteLength(encoded) > MAX_RESULT_BYTES && message !== '') {
    const excess = Buffer.byteLength(encoded) - MAX_RESULT_BYTES
    const kept = message.slice(0, -Math.ceil(excess / LONGEST_ESCAPE))
    message = kept.replace(/[\ud800-\udbff]$/, '')
    encoded = JSON.stringify({ ...result, failure: { ...result.failure, message } })
  }
  return encoded
}

/** The credentials file of the box: which credential is for which repository, without any secret. */
function buildCredentialsFile(
  { template, bake, services, orderedAt }: BakeOrder,
  now: number,
): BoxCredentials {
  const credentials = new Map<string, BoxCredential>()
  for (const { image, credential } of services) {
    const { reference } = parseImageReference(image)
    if (!credential || !reference) continue
    const known = credentials.get(credential.id)
    const repositories = new Set([...(known?.repositories ?? []), reference.repository])
    const { id, uid, generation, registry } = credential
    const shared = { id, uid, generation, registry, repositories: [...repositories].sort() }
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
    orderedAt,
    bakedAt,
    credentials: [...credentials.values()],
  }
}

/** Why the signal aborts. */
export type BakeInterruption = 'canceled' | 'timed_out'

type ServiceResult = BakeResult['services'][number]

type Item = {
  service: OrderedService
  reference: ImageReference
  login: RegistryLogin | undefined
  probed: ProbeResult | undefined
  result: ServiceResult
}

/** Whether a registry would answer both alike: the same repository, and the same credential or none. */
function isSameAccess(a: Item, b: Item): boolean {
  const [first, second] = [a, b].map(({ reference, service }) =>
    JSON.stringify([reference.registry, reference.repository, service.credential?.id]),
  )
  return first === second
}

function isSameImage(a: Item, b: Item): boolean {
  return isSameAccess(a, b) && manifestReference(a) === manifestReference(b)
}

/** A tag or a digest. */
function manifestReference({ reference: { digest, tag } }: Item): string {
  return digest ?? tag ?? 'latest'
}

/** Never throws: a failed bake returns its failure and leaves nothing behind. @param signal its reason is a `BakeInterruption` */
export async function bake(
  dependencies: BakeDependencies,
  order: BakeOrder,
  signal: AbortSignal,
): Promise<BakeResult> {
  const context: BakeContext = { ...dependencies, order, signal, redactor: new SecretRedactor() }
  const items: Item[] = []
  try {
    const folder = await context.store.open()
    try {
      await prepare(context, items)
      for (const item of items) await probe(context, items, item)
      // Images that will probably fail come first, to fail before anything else is pulled.
      const doubtful = items.filter(({ probed }) => !probed || !isFound(probed))
      for (const item of new Set([...doubtful, ...items])) await pullService(context, folder, items, item)
      const stored = items.map(({ service: { name, image }, result: { digest = '' } }) => ({
        name,
        image,
        digest,
      }))
      await folder.publish(stored, buildCredentialsFile(order, context.clock.now()))
    } finally {
      await discard(context, folder)
    }
    return { version: 1, state: 'succeeded', services: items.map(({ result }) => result) }
  } catch (error) {
    const failure = failureOf(context, error)
    context.log.error('bake_failed', 'bake failed', failure)
    // Nothing was kept, so no service has a digest.
    const services = items.map(({ result: { digest: _, ...rest } }) => rest)
    return { version: 1, state: 'failed', services, failure }
  }
}

/** A failed cleanup must not hide the result of the bake. */
async function discard({ log }: BakeContext, folder: BoxFolder): Promise<void> {
  try {
    await folder.discard()
  } catch (error) {
    log.warn('bake_cleanup_failed', 'failed to remove the files of the bake', { error })
  }
}

/** Reads all secrets before the first request to a registry, so that a missing one fails the bake at once. */
async function prepare(context: BakeContext, items: Item[]): Promise<void> {
  const logins = new LoginCache(context)
  for (const service of context.order.services) {
    const { reference, problem } = parseImageReference(service.image)
    if (!reference)
      throw new BakeFailureError({
        service: service.name,
        step: 'pull',
        code: 'tool_failed',
        message: `The image reference ${problem}.`,
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

/**
 * Skips a login that was rejected for another service: repeating it may lock the account. Does not ask again what it asked for another
 * service: registries limit requests.
 */
async function probe(context: BakeContext, items: readonly Item[], item: Item): Promise<void> {
  const { service } = item
  const id = service.credential?.id
  const isRejected = items.some(
    ({ service: other, result }) =>
      other !== service && other.credential?.id === id && result.verified?.code === 'wrong_credentials',
  )
  if (id !== undefined && isRejected) return
  const same = items.find((other) => other.probed && isSameImage(other, item))
  if (same) item.result.verified = same.result.verified
  item.probed = same?.probed ?? (await probeAndRecord(context, item))
}

async function probeAndRecord(context: BakeContext, item: Item): Promise<ProbeResult> {
  const { service, login, reference } = item
  const { registry, repository } = reference
  const target = { registry, repository, reference: manifestReference(item) }
  const { result, at } = await probeImage(context, target, login)
  const found = isFound(result)
  const code = found ? undefined : failureOfProbe(result, login !== undefined).code
  context.log.info(
    'registry_probed',
    found ? 'found image in registry' : 'failed to get image from registry',
    {
      service: service.name,
      image: service.image,
      credential: service.credential?.id,
      ...(found ? { digest: result.digest } : { code }),
    },
  )
  if (login && (!found || result.loggedIn))
    item.result.verified = { at: new Date(at).toISOString(), ok: found, code }
  return result
}

/** Runs the tool even if the probe failed, since its output goes to the status. Not if the login or address is forbidden. */
async function pullService(
  context: BakeContext,
  folder: BoxFolder,
  items: readonly Item[],
  item: Item,
): Promise<void> {
  const { service, login, reference } = item
  const same = items.find((other) => isPulledImage(other, item))
  if (same) return reuseImage(context, folder, same, item)
  const pull = async (probed: ProbeResult) => {
    const isForbidden = probed.kind === 'unreachable' && probed.failure === 'forbidden-address'
    if (probed.kind === 'realm-refused' || isForbidden) throw policyError(item, probed)
    const { registry, repository } = reference
    const image = isFound(probed) ? `${registry}/${repository}@${probed.digest}` : service.image
    await pullImage(context, folder, { service, registry, login, probed, image })
    return isFound(probed) ? probed.digest : undefined
  }
  const digest = await pull(item.probed ?? (await probeAndRecord(context, item)))
  // The probe failed and the tool succeeded: the digest behind the tag is unknown, so probe and pull by digest.
  item.result.digest = digest ?? (await pull(await probeAgain(context, item)))
}

/** Whether `other` is pulled, and is the same image: by its name, or by the digest that the registry knows for both. */
function isPulledImage(other: Item, item: Item): boolean {
  const { digest } = other.result
  if (digest === undefined || !isSameAccess(other, item)) return false
  const known = item.probed && isFound(item.probed) ? item.probed.digest : undefined
  return known === digest || isSameImage(other, item)
}

/** Its blobs are in the folder, and are verified. */
function reuseImage({ log }: BakeContext, folder: BoxFolder, pulled: Item, item: Item): void {
  const [from, service] = [pulled.service.name, item.service.name]
  folder.reuse(service, from)
  log.info('image_reused', 'image is already pulled for another service', { service, from })
  item.result.digest = pulled.result.digest
  if (isSameImage(pulled, item)) item.result.verified = pulled.result.verified
}

async function probeAgain(context: BakeContext, item: Item): Promise<FoundManifest> {
  const { service, login } = item
  const result = await probeAndRecord(context, item)
  if (isFound(result)) return result
  const { code, step } = failureOfProbe(result, login !== undefined)
  const words = 'words' in result ? result.words : result.reason
  // A registry that is overloaded or limits requests is not asked for its words.
  const status = 'status' in result ? `The registry responded with HTTP status ${result.status}.` : ''
  const message = words || status
  throw new BakeFailureError({ service: service.name, step, code, message })
}

/** The tool never runs in this case, so there is no output of it to report. */
function policyError({ service, login, reference }: Item, probed: ProbeResult): BakeFailureError {
  const { code, step } = failureOfProbe(probed, login !== undefined)
  const message =
    probed.kind === 'realm-refused'
      ? `Davit does not use the token endpoint ${probed.realm} of ${reference.registry} because that URL ${probed.reason}.`
      : `${reference.registry} resolves to an address that bakes must not connect to.`
  return new BakeFailureError({ service: service.name, step, code, message })
}

function failureOf({ signal, redactor }: BakeContext, error: unknown): BakeFailureError['failure'] {
  if (signal.aborted) {
    const code = signal.reason === 'timed_out' ? 'timed_out' : 'canceled'
    const message = code === 'timed_out' ? 'The bake exceeded its deadline.' : 'The bake was stopped.'
    return { step: 'pull', code, message }
  }
  const message = redactor.redactForStatus(error instanceof Error ? error.message : String(error))
  if (error instanceof BakeFailureError) return { ...error.failure, message }
  if (error instanceof StoreError)
    return { step: 'store', code: error.kind === 'no-space' ? 'out_of_disk' : 'tool_failed', message }
  return { step: error instanceof CopyError ? 'pull' : 'store', code: 'tool_failed', message }
}
