import { secrets } from '../apis/core-kinds.ts'
import { NO_ENDPOINT_YET, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { findObject, isApiError } from '../kube/client.ts'
import { signingSecretName } from '../webhooks/endpoints/directory.ts'
import { keysData, keysObject, readKeys } from '../webhooks/endpoints/signing-keys.ts'
import {
  activeKeys,
  formatSecret,
  KEY_BYTES,
  MAX_ACTIVE_KEYS,
  OVERLAP_SECONDS,
  rollKeys,
  type SigningKey,
  withoutUnseen,
} from '../webhooks/sender/signature.ts'
import { acknowledged, type EndpointsContext, hasSecret } from './endpoint-acknowledgements.ts'
import { type EndpointId, readEndpoint } from './endpoint-resource.ts'
import { Problem } from './http/problems.ts'
import { type NamespacedRef, retryOnConflict } from './objects.ts'

/** Rolls the signing secret of an endpoint (interface §4.2 rule 3). */

export type RolledSecret = {
  /** Returned once; absent in a repeat. */
  secret?: string
  overlapSeconds: number
  replayed: boolean
}

/** @param request names the roll: the same request makes no second key */
type Roll = { expireOld: boolean; request?: string }

export async function rollSecret(
  ctx: EndpointsContext,
  id: EndpointId,
  { expireOld }: Roll,
  key: string | undefined,
): Promise<RolledSecret> {
  const overlapSeconds = expireOld ? 0 : OVERLAP_SECONDS
  const { organization, endpointId } = id
  const { result } = await ctx.keys.around(
    { organization, operation: 'roll', key, asked: `${endpointId} ${expireOld}` },
    {
      // A roll that is refused uses up no key. Without a key, `act` refuses it just as well.
      ...(key === undefined ? {} : { check: async () => void (await planRoll(ctx, id, { expireOld }, '')) }),
      act: (request) => makeSecret(ctx, id, { expireOld, request }),
    },
  )
  // If an earlier call failed before it made the key or before it responded, this is the first response.
  if (result?.isUndisclosed) return { secret: result.secret, overlapSeconds, replayed: false }
  return { overlapSeconds, replayed: true }
}

/** @returns the secret of that roll, in use, and whether it may be returned */
async function makeSecret(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll,
): Promise<{ secret: string; isUndisclosed: boolean }> {
  const candidate = formatSecret(ctx.random.bytes(KEY_BYTES))
  const { endpoint, key } = await retryOnConflict(() => writeKey(ctx, id, roll, candidate))
  const { secret } = key
  const before = roll.expireOld ? ' The secrets before it have ended.' : ''
  const detail = `A new secret is stored, which comes into force later and is not in this answer.${before} Repeat the request: that makes another one in its place, or answers with this one under the same Idempotency-Key.`
  const { isUndisclosed } = await ctx.undisclosed.whenDone(secret, secret === candidate, async () => {
    // A key that has expired in the meantime is never acknowledged.
    if (activeKeys([key], ctx.clock.now()).length === 0) return
    await acknowledged(ctx, endpoint, (seen) => hasSecret(seen, secret), { detail })
  })
  return { secret, isUndisclosed }
}

/** @returns the endpoint as it was, and the key that this roll made, now or before */
async function writeKey(
  ctx: EndpointsContext,
  id: EndpointId,
  roll: Roll,
  secret: string,
): Promise<{ endpoint: WebhookEndpoint; key: SigningKey }> {
  const { endpoint, ref, held, rolled } = await planRoll(ctx, id, roll, secret)
  const made = rolled.kind === 'repeated' ? held.keys : rolled.keys
  const key = made.find(({ request }) => request === roll.request)
  const { namespace = '', name, uid } = endpoint.metadata
  if (!key) throw new Error(`a roll of ${namespace}/${name} has no key`)
  if (rolled.kind === 'repeated') return { endpoint, key }
  try {
    if (held.version === undefined)
      // The controller may be creating the first key: it adopts this one, or the conflict repeats the cycle.
      await ctx.resources.create(secrets, keysObject(ctx.namespace, { namespace, name, uid }, rolled.keys))
    else {
      const metadata = { resourceVersion: held.version }
      await ctx.resources.patch(secrets, ref, { metadata, data: keysData(uid, rolled.keys) })
    }
  } catch (error) {
    // It may be stored nevertheless. After a conflict the cycle looks again.
    if (!isApiError(error, 'Conflict', 'AlreadyExists')) ctx.undisclosed.add(secret)
    throw error
  }
  return { endpoint, key }
}

/** @throws Problem not_found, too_many_secrets */
async function planRoll(ctx: EndpointsContext, id: EndpointId, roll: Roll, secret: string) {
  const now = ctx.clock.now()
  const { object: endpoint } = await readEndpoint(ctx, id)
  const { namespace = '', name, uid } = endpoint.metadata
  const ref = { namespace: ctx.namespace, name: signingSecretName(namespace, name) }
  const held = await readHeld(ctx, ref, uid)
  const isOther = (key: SigningKey) => key.request === undefined || key.request !== roll.request
  // The secret of a failed request is of no use to the client: it does not count, and ends.
  const keys = withoutUnseen(held.keys, (key) => isOther(key) && ctx.undisclosed.has(key.secret), now)
  const shared = endpoint.spec.signingSecret !== undefined
  const rolled = rollKeys(keys, { ...roll, secret, shared }, now)
  if (rolled.kind !== 'tooMany') return { endpoint, ref, held, rolled }
  throw new Problem('too_many_secrets', { detail: `${MAX_ACTIVE_KEYS} secrets are in force.` })
}

/** Ignores keys of an earlier endpoint of that name. @returns `version` is absent if nothing is stored */
async function readHeld(
  { resources }: EndpointsContext,
  ref: NamespacedRef,
  endpointUid: string,
): Promise<{ keys: readonly SigningKey[]; version?: string }> {
  const stored = await findObject(resources, secrets, ref)
  if (!stored) return { keys: [] }
  const { keys } = readKeys(stored)
  const isOwn = keys.endpointUid === endpointUid || keys.endpointUid === NO_ENDPOINT_YET
  return { keys: isOwn ? keys.keys : [], version: keys.version }
}
