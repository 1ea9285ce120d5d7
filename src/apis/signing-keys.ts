/**
 * How the signing keys of an endpoint are kept: a Secret named `<namespace>.<endpoint>` in the operator's
 * namespace, so that who may read Secrets of an organization cannot read them.
 */
import { z } from 'zod'
import { GROUP } from './meta.ts'

export const SIGNING_KEYS_LABEL = `${GROUP}/signing-keys`
/** Type of our own Secrets, and of one in an organization that may get the keys (`spec.signingSecret`). */
export const SIGNING_KEYS_TYPE = `${GROUP}/signing-keys`
export const SIGNING_KEY_TYPE = `${GROUP}/signing-key`
/** Marks a Secret in an organization that Davit made for `spec.signingSecret`; the value is the endpoint's UID. */
export const SIGNING_SECRET_OWNER_LABEL = `${GROUP}/signing-secret-of`

export const signingKeyRecord = z.object({
  secret: z.string().regex(/^whsec_[A-Za-z0-9+/]+=*$/),
  createdAt: z.string(),
  expiresAt: z.string().optional(),
  request: z.string().optional(),
  shared: z.boolean().optional(),
})

/** In the place of a UID: the keys were made before their endpoint, and are for the first one of that name. */
export const NO_ENDPOINT_YET = ''

/**
 * The one value of the Secret, under the key `keys`. `boundAt`: creationTimestamp of the Secret that a restore had made, when its keys were
 * bound to the endpoint of that name.
 */
export const signingKeyFile = z.object({
  endpointUid: z.string(),
  keys: z.array(signingKeyRecord).max(16),
  boundAt: z.string().optional(),
})
export type SigningKeyFile = z.infer<typeof signingKeyFile>
