/**
 * Takes Davit's finalizers off what organizations have, so that it can be deleted while no Davit runs. What is not being deleted stays as it is,
 * and gets its finalizer back from the next Davit. What is goes, without its account having been asked: that is said.
 */
import { type ObjectMeta, objectMeta, type ResourceType } from '../apis/meta.ts'
import { PARAMETER_FINALIZER, registryCredentials, storedParameter } from '../apis/registry-credential.ts'
import { ACCOUNT_FINALIZER, secretsSettingsResource } from '../apis/secrets-settings.ts'
import { isApiError, type RawObject, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import type { Logger } from '../lib/ports-log.ts'

const FINALIZERS: readonly { type: ResourceType; finalizer: string }[] = [
  { type: registryCredentials, finalizer: PARAMETER_FINALIZER },
  { type: secretsSettingsResource, finalizer: ACCOUNT_FINALIZER },
]

/** Somebody may write an object between its list and its patch, or a controller that ends put a finalizer back. */
const MOST_ROUNDS = 10

/** @returns how many were let go @throws ApiError; Error when some are still held after all rounds */
export async function removeFinalizers(
  resources: ResourceReader & ResourceWriter,
  log: Logger,
): Promise<number> {
  let released = 0
  for (let round = 0; round < MOST_ROUNDS; round += 1) {
    let found = 0
    for (const held of FINALIZERS) {
      for await (const object of objectsWithFinalizer(resources, held)) {
        found += 1
        if (await release(resources, held, object, log)) released += 1
      }
    }
    if (found === 0) return released
  }
  throw new Error('finalizers come back: does a controller of Davit run still?')
}

async function* objectsWithFinalizer(
  resources: ResourceReader,
  { type, finalizer }: (typeof FINALIZERS)[number],
): AsyncGenerator<RawObject> {
  let from: string | undefined
  do {
    const page = await listed(resources, type, from)
    for (const object of page.items)
      if (objectMeta.parse(object.metadata).finalizers?.includes(finalizer)) yield object
    from = page.continue
  } while (from !== undefined)
}

/** Of a kind that is not there any more, nothing is. */
async function listed(resources: ResourceReader, type: ResourceType, from: string | undefined) {
  try {
    return await resources.list(type, {}, from)
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { items: [], continue: undefined }
    throw error
  }
}

async function release(
  resources: ResourceWriter,
  { type, finalizer }: (typeof FINALIZERS)[number],
  object: RawObject,
  log: Logger,
): Promise<boolean> {
  const { name, namespace, resourceVersion, finalizers, deletionTimestamp }: ObjectMeta = objectMeta.parse(
    object.metadata,
  )
  const rest = finalizers?.filter((each) => each !== finalizer) ?? []
  try {
    await resources.patch(type, { namespace, name }, { metadata: { resourceVersion, finalizers: rest } })
  } catch (error) {
    // It has changed, which the next round sees, or is gone.
    if (isApiError(error, 'Conflict', 'NotFound')) return false
    throw error
  }
  const about = { kind: type.plural, namespace, name, ...leftBehind(object) }
  if (deletionTimestamp === undefined) log.info('The finalizer was taken off; the object stays', about)
  else log.warn('The finalizer was taken off, and the object goes; what it has in its account stays', about)
  return true
}

/** Where its secret is, for whoever removes it by hand. */
function leftBehind({ status }: RawObject): { account?: string; region?: string; parameter?: string } {
  const { data } = storedParameter.safeParse((status as { parameter?: unknown } | undefined)?.parameter)
  return data ? { account: data.account, region: data.region, parameter: data.name } : {}
}
