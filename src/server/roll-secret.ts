/** Rolls the signing secret of an endpoint (interface §4.2 rule 3). */

import { secrets } from '../apis/core-kinds.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../apis/ids.ts'
import { NO_ENDPOINT_YET, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { isApiError } from '../kube/client.ts'
import { type EndpointIdentity, signingSecretName } from '../webhooks/endpoints/directory.ts'
import { keysData, keysObject, readKeys } from '../webhooks/endpoints/signing-keys.ts'
import {
  activeKeys,
  fingerprintOf,
  formatSecret,
  KEY_BYTES,
  MAX_ACTIVE_KEYS,
  OVERLAP_SECONDS,
  rollKeys,
  type SigningKey,
  withoutUnseen,
} from '../webhooks/sender/signature.ts'
import { acknowledged, type EndpointsContext } from './endpoint-acknowledgements.ts'
import { type EndpointId, type RolledSecret, readEndpoint } from './endpoint-resource.ts'
import { RefusedError } from './http/problems.ts'
import { retryOnConflict } from './object-writes.ts'

type Roll = { expireOld: boolean }

/** Keys as they are stored. @param version absent where nothing is stored */
type Held = { keys: readonly SigningKey[]; version?: string }

export async function rollSecret(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll,
  key: string | undefined,
): Promise<RolledSecret> {
  const overlapSeconds = roll.expireOld ? 0 : OVERLAP_SECONDS
  const act = (request: string) => makeKey(ctx, id, { ...roll, request })
  if (key === undefined) {
    const { secret } = await act(sortableName(ctx.clock.now(), ctx.random.bytes(NAME_ENTROPY_BYTES)))
    return { secret, overlapSeconds, replayed: false }
  }
  const { organization, endpointId } = id
  const asked = `${endpointId} ${roll.expireOld}`
  // What is refused uses up no key.
  const check = async () => void (await planRoll(ctx, id, { ...roll, secret: '' }))
  const request = { organization, operation: 'roll', key, asked }
  const { result } = await ctx.keys.around(request, { check, act })
  // Where an earlier call failed before it made the key, or before it answered, this is the first showing.
  if (result?.isUnseen) return { secret: result.secret, overlapSeconds, replayed: false }
  return { overlapSeconds, replayed: true }
}

/**
 * @param request names the roll: the same again makes no second key
 * @returns the secret of that roll, in force, and whether nobody has been shown it
 */
async function makeKey(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll & { request: string },
): Promise<{ secret: string; isUnseen: boolean }> {
  const candidate = formatSecret(ctx.random.bytes(KEY_BYTES))
  const { endpoint, key } = await retryOnConflict(() => writeKey(ctx, id, { ...roll, secret: candidate }))
  const { secret } = key
  const late = lateWords(roll)
  const { isUnseen } = await ctx.unseen.whenDone(secret, secret === candidate, () =>
    inForce(ctx, endpoint, { key, late }),
  )
  return { secret, isUnseen }
}

/** @returns the endpoint as it was then, and the key that the roll has made, by now or before */
async function writeKey(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll & { request: string; secret: string },
): Promise<{ endpoint: WebhookEndpoint; key: SigningKey }> {
  const { endpoint, owner, held, rolled } = await planRoll(ctx, id, roll)
  const made = rolled.kind === 'repeated' ? held.keys : rolled.keys
  const key = made.find(({ request }) => request === roll.request)
  if (!key) throw new Error(`a roll of ${owner.namespace}/${owner.name} has no key`)
  if (rolled.kind === 'repeated') return { endpoint, key }
  try {
    await store(ctx, owner, rolled.keys, held.version)
  } catch (error) {
    // It may be stored all the same. After a conflict it is looked at again.
    if (!isApiError(error, 'Conflict', 'AlreadyExists')) ctx.unseen.add(roll.secret)
    throw error
  }
  return { endpoint, key }
}

/** @throws RefusedError not_found, too_many_secrets */
async function planRoll(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll & { request?: string; secret: string },
) {
  const now = ctx.clock.now()
  const endpoint = await readEndpoint(ctx, id)
  const owner = ownerOf(endpoint)
  const held = await readHeld(ctx, owner)
  const shared = endpoint.spec.signingSecret !== undefined
  const isOther = (key: SigningKey) => key.request === undefined || key.request !== roll.request
  // Whose request failed has no use for the secret: it does not count, and ends.
  const keys = withoutUnseen(held.keys, (key) => isOther(key) && ctx.unseen.has(key.secret), now)
  const rolled = rollKeys(keys, { ...roll, shared }, now)
  if (rolled.kind !== 'tooMany') return { endpoint, owner, held, rolled }
  throw new RefusedError('too_many_secrets', { detail: `${MAX_ACTIVE_KEYS} secrets are in force.` })
}

/** A key that has ended meanwhile is waited for in vain. */
async function inForce(
  ctx: EndpointsContext,
  endpoint: WebhookEndpoint,
  { key, late }: { key: SigningKey; late: string },
): Promise<void> {
  if (activeKeys([key], ctx.clock.now()).length === 0) return
  const fingerprint = fingerprintOf(key.secret)
  await acknowledged(
    ctx,
    endpoint,
    ({ status }) => status?.signingSecrets?.some((key) => key.fingerprint === fingerprint) ?? false,
    { detail: late },
  )
}

function lateWords({ expireOld }: Roll): string {
  const before = expireOld ? ' The secrets before it have ended.' : ''
  return `A new secret is stored, which comes into force later and is not in this answer.${before} Repeat the request: that makes another one in its place, or answers with this one under the same Idempotency-Key.`
}

function ownerOf({ metadata: { namespace = '', name, uid } }: WebhookEndpoint): EndpointIdentity {
  return { namespace, name, uid }
}

/** Keys of one that had the name before are no keys of this one. */
async function readHeld({ resources, namespace }: EndpointsContext, owner: EndpointIdentity): Promise<Held> {
  try {
    const ref = { namespace, name: signingSecretName(owner.namespace, owner.name) }
    const { keys } = readKeys(await resources.get(secrets, ref))
    const isOwn = keys.endpointUid === owner.uid || keys.endpointUid === NO_ENDPOINT_YET
    return { keys: isOwn ? keys.keys : [], version: keys.version }
  } catch (error) {
    if (isApiError(error, 'NotFound')) return { keys: [] }
    throw error
  }
}

/** @throws ApiError `Conflict` where somebody else wrote meanwhile */
async function store(
  { resources, namespace }: EndpointsContext,
  owner: EndpointIdentity,
  keys: readonly SigningKey[],
  version: string | undefined,
): Promise<void> {
  const ref = { namespace, name: signingSecretName(owner.namespace, owner.name) }
  if (version !== undefined) {
    const data = keysData(owner.uid, keys)
    await resources.patch(secrets, ref, { metadata: { resourceVersion: version }, data })
    return
  }
  // The controller is about to make the first: it takes over what it finds, or this is decided again.
  await resources.create(secrets, keysObject(namespace, owner, keys))
}
