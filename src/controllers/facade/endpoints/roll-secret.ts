/** Rolls the signing secret of an endpoint (interface §4.2 rule 3). */
import { secrets } from '../../../api/core-kinds.ts'
import { NO_ENDPOINT_YET } from '../../../api/signing-keys.ts'
import type { WebhookEndpoint } from '../../../api/webhook-endpoint.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../domain/message-id.ts'
import { fingerprintOf, formatSecret, KEY_BYTES } from '../../../domain/signature.ts'
import { MAX_ACTIVE_KEYS, OVERLAP_SECONDS, rollKeys, type SigningKey } from '../../../domain/signing-keys.ts'
import type { EndpointId, RolledSecret } from '../../../ports/endpoints.ts'
import { isApiError } from '../../../ports/kubernetes.ts'
import { RefusedError } from '../../../ports/refused-error.ts'
import { secretName } from '../../endpoint/endpoint-directory.ts'
import { type KeyOwner, keysData, keysObject, readKeys } from '../../endpoint/signing-key-store.ts'
import { untilUndisturbed } from './change-endpoint.ts'
import { acknowledged, type EndpointsContext } from './context.ts'
import { readEndpoint } from './live-endpoint.ts'

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
  const act = (request: string) => makeKey(ctx, id, roll, request)
  if (key === undefined) {
    const request = sortableName(ctx.clock.now(), ctx.random.bytes(NAME_ENTROPY_BYTES))
    return { ...shown(await act(request)), overlapSeconds, replayed: false }
  }
  const { organization, endpointId } = id
  const asked = `${endpointId} ${roll.expireOld}`
  const { result, replayed } = await ctx.keys.around({ organization, operation: 'roll', key, asked }, { act })
  return { ...(replayed ? {} : shown(result)), overlapSeconds, replayed }
}

function shown(secret: string | undefined): { secret?: string } {
  return secret === undefined ? {} : { secret }
}

/**
 * @param request names the roll: the same again makes no second key
 * @returns the new secret, in force; undefined when this roll was made before
 */
async function makeKey(
  ctx: EndpointsContext,
  id: EndpointId,
  { expireOld }: Roll,
  request: string,
): Promise<string | undefined> {
  const secret = formatSecret(ctx.random.bytes(KEY_BYTES))
  const written = await untilUndisturbed(async () => {
    const endpoint = await readEndpoint(ctx, id)
    const owner = ownerOf(endpoint)
    const held = await readHeld(ctx, owner)
    const shared = endpoint.spec.signingSecret !== undefined
    const rolled = rollKeys(held.keys, { secret, expireOld, request, shared }, ctx.clock.now())
    if (rolled.kind === 'repeated') return undefined
    if (rolled.kind === 'tooMany') {
      const detail = `${MAX_ACTIVE_KEYS} secrets are in force.`
      throw new RefusedError('too_many_secrets', { detail })
    }
    await store(ctx, owner, rolled.keys, held.version)
    return endpoint
  })
  if (!written) return undefined
  const fingerprint = fingerprintOf(secret)
  await acknowledged(
    ctx,
    written,
    ({ status }) => status?.signingSecrets?.some((key) => key.fingerprint === fingerprint) ?? false,
  )
  return secret
}

function ownerOf({ metadata: { namespace = '', name, uid } }: WebhookEndpoint): KeyOwner {
  return { namespace, name, uid }
}

/** Keys of one that had the name before are no keys of this one. */
async function readHeld({ resources, namespace }: EndpointsContext, owner: KeyOwner): Promise<Held> {
  try {
    const ref = { namespace, name: secretName(owner.namespace, owner.name) }
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
  owner: KeyOwner,
  keys: readonly SigningKey[],
  version: string | undefined,
): Promise<void> {
  const ref = { namespace, name: secretName(owner.namespace, owner.name) }
  if (version !== undefined) {
    const data = keysData(owner.uid, keys)
    await resources.patch(secrets, ref, { metadata: { resourceVersion: version }, data })
    return
  }
  // The controller is about to make the first: it takes over what it finds, or this is decided again.
  await resources.create(secrets, keysObject(namespace, owner, keys))
}
