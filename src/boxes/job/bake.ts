/** One bake, from what the order says to a box in its place: all services of it, or nothing. */
import type { BakeOrder } from '../../apis/bake-order.ts'
import type { BakeResult } from '../../apis/bake-result.ts'
import { type ImageReference, parseImageReference } from '../image-reference.ts'
import { type BoxFolder, StoreError } from '../layout/box-store.ts'
import { failureOfProbe } from '../registry/failure.ts'
import type { FoundManifest, ProbeResult, RegistryLogin } from '../registry/outcome.ts'
import type { BakeContext, BakeDependencies, OrderedService } from './bake-context.ts'
import { type BakeFailure, BakeFailureError } from './bake-failure-error.ts'
import { buildCredentialMap } from './box-map.ts'
import { CopyError } from './image-copier.ts'
import { SecretRedactor } from './known-secrets.ts'
import { LoginCache } from './probe.ts'
import { isFound, probeImage } from './probe-image.ts'
import { pullImage } from './pull.ts'

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
