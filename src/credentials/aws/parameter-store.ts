import type { Random } from '../../lib/ports-clock.ts'
import type { SecretText } from '../../lib/secret-text.ts'
import type {
  CallLimits,
  CloudAccess,
  NewParameter,
  OwnerTags,
  ParameterListing,
  ParameterStore,
} from '../cloud.ts'
import { CloudError, type CloudRemedy, isCloudError } from '../cloud-error.ts'
import { accountRegionKey, type RateLimiterFor, type SsmCalls } from './ssm-calls.ts'

/**
 * Tag of each call that makes a parameter, with a value of its own: when the answer was lost, it tells whether the parameter that is
 * there is from this call.
 */
const WRITE_TAG = 'davit.dev/write'
const WRITE_TAG_BYTES = 12

export type ParameterStoreOptions = {
  calls: SsmCalls
  tagsOf: ParameterListing['tagsOf']
  writeTurns: RateLimiterFor
  random: Random
}

/** SecureStrings of Parameter Store, written and never read. */
export function createParameterStore(options: ParameterStoreOptions): ParameterStore {
  return {
    create: (access, parameter, limits) => create(options, access, { parameter, limits }),
    replace: (access, name, value, limits) => replace(options, access, { name, value, limits }),
    remove: (access, name, limits) => remove(options, access, { name, limits }),
  }
}

type Limited = { limits: CallLimits | undefined }
type Put = { name: string; value: SecretText } & Limited &
  (
    | { overwrite: true }
    | { overwrite: false; description: string; tags: OwnerTags; isStale(code: string): boolean }
  )

async function create(
  options: ParameterStoreOptions,
  access: CloudAccess,
  { parameter, limits }: { parameter: NewParameter } & Limited,
): Promise<{ version: number }> {
  const { recent } = options.calls
  const place = accountRegionKey(access)
  const { name } = parameter
  const mark = Buffer.from(options.random.bytes(WRITE_TAG_BYTES)).toString('hex')
  const tags = { ...parameter.tags, [WRITE_TAG]: mark }
  // One that was removed a moment ago may still seem to be there.
  const isStale = (code: string) =>
    code === 'ParameterAlreadyExists' && recent.lastOf(place, name)?.done === 'removed'
  try {
    const { version } = await put(options, access, { ...parameter, tags, overwrite: false, isStale, limits })
    recent.note(place, { name, done: 'written', version })
    return { version }
  } catch (error) {
    if (!isCloudError(error, 'ParameterAlreadyExists')) throw error
    if (!error.unsure) throw isStale(error.code) ? amended(error, { remedy: 'retry' }) : error
    // The first version of what was not there before; whoever wrote a second one since is found by its number.
    recent.note(place, { name, done: 'written', version: 1 })
    const written = await markOf(options, access, { name, limits })
    if (written === mark) return { version: 1 }
    throw written === undefined ? error : amended(error, { unsure: false })
  }
}

/** Of the call that made it, empty if it has none; undefined if it is not there. */
async function markOf(
  { tagsOf }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<string | undefined> {
  try {
    return (await tagsOf(access, name, limits))[WRITE_TAG] ?? ''
  } catch (error) {
    if (isCloudError(error) && error.remedy === 'gone') return undefined
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

function amended(error: CloudError, change: { remedy?: CloudRemedy; unsure?: boolean }): CloudError {
  const { remedy, code, message, operation, unsure } = { ...error, message: error.message, ...change }
  return new CloudError(remedy, code, message, { operation, unsure })
}

async function replace(
  options: ParameterStoreOptions,
  access: CloudAccess,
  { name, value, limits }: { name: string; value: SecretText } & Limited,
): Promise<{ version: number }> {
  const { version, lost } = await put(options, access, { name, value, overwrite: true, limits })
  options.calls.recent.note(accountRegionKey(access), { name, done: 'written', version })
  // Versions count from 1: one so low may be that of a parameter which was gone, and which this call has made anew.
  if (version <= lost + 1 && (version === 1 || (await isUntagged(options, access, { name, limits })))) {
    await takeBack(options, access, name)
    throw new CloudError('gone', 'ParameterNotFound', 'There was no parameter to write over.', {
      operation: 'ssm:PutParameter',
    })
  }
  return { version }
}

/** Also when the caller has left: nobody would find a parameter without tags. */
async function takeBack(options: ParameterStoreOptions, access: CloudAccess, name: string): Promise<void> {
  try {
    await remove(options, access, { name, limits: undefined })
  } catch (error) {
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

/** What Davit made has tags from its first moment; what does not show yet was made just now. */
async function isUntagged(
  { tagsOf }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<boolean> {
  try {
    return Object.keys(await tagsOf(access, name, limits)).length === 0
  } catch (error) {
    if (isCloudError(error) && error.remedy === 'gone') return true
    throw isCloudError(error) ? amended(error, { unsure: true }) : error
  }
}

async function put(
  { calls, writeTurns }: ParameterStoreOptions,
  access: CloudAccess,
  given: Put,
): Promise<{ version: number; lost: number }> {
  return await calls.run(access, {
    operation: 'ssm:PutParameter',
    limits: given.limits,
    turns: writeTurns,
    secrets: [given.value.reveal()],
    ...(given.overwrite ? {} : { isStale: given.isStale }),
    send: async ({ module, client }, signal, lost) => {
      const command = new module.PutParameterCommand({
        Name: given.name,
        Value: given.value.reveal(),
        Type: 'SecureString',
        // Named, since the account's own default may be one that costs money. A data type is refused in some partitions.
        Tier: 'Standard',
        Overwrite: given.overwrite,
        ...(access.kmsKeyId !== undefined && { KeyId: access.kmsKeyId }),
        ...(given.overwrite ? {} : { Description: given.description, Tags: listOf(given.tags) }),
      })
      const { Version } = await client.send(command, { abortSignal: signal })
      if (Version === undefined)
        throw new CloudError('retry', 'UnreadableAnswer', 'The answer has no version.', {
          operation: 'ssm:PutParameter',
          unsure: true,
        })
      return { version: Version, lost }
    },
  })
}

async function remove(
  { calls, writeTurns }: ParameterStoreOptions,
  access: CloudAccess,
  { name, limits }: { name: string } & Limited,
): Promise<'deleted' | 'not-found'> {
  const place = accountRegionKey(access)
  const { recent } = calls
  try {
    await calls.run(access, {
      operation: 'ssm:DeleteParameter',
      limits,
      turns: writeTurns,
      // What is deleted holds up its namespace: it does not wait behind all that the organization has to store.
      queue: 'removals',
      // One that was made a moment ago may not be seen yet.
      isStale: (code) => code === 'ParameterNotFound' && recent.lastOf(place, name)?.done === 'written',
      send: ({ module, client }, signal) =>
        client.send(new module.DeleteParameterCommand({ Name: name }), { abortSignal: signal }),
    })
  } catch (error) {
    if (!isCloudError(error, 'ParameterNotFound')) throw error
    // By an attempt of this very call whose answer was lost.
    if (!error.unsure) return 'not-found'
  }
  recent.note(place, { name, done: 'removed' })
  return 'deleted'
}

function listOf(tags: OwnerTags): { Key: string; Value: string }[] {
  return Object.entries(tags).map(([Key, Value]) => ({ Key, Value }))
}
