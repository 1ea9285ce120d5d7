import { z } from 'zod'
import { GROUP, objectMeta, type ResourceType } from './meta.ts'

/** Lease of a replica (coordination.k8s.io): that it lives, and what it gives to whom. */

export const leases: ResourceType = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}

/** Its value names the role whose replicas the Lease is one of. */
export const REPLICA_LABEL = `${GROUP}/replica-of`
/** Names of the replicas that it gives shards to, with commas. */
export const VIEW_ANNOTATION = `${GROUP}/view`
/** Numbers of the shards of which it has something under way that are no longer its own, with commas. */
export const DRAINING_ANNOTATION = `${GROUP}/draining`
/** The replica's own name, as it is in views. */
export const REPLICA_ANNOTATION = `${GROUP}/replica`

export const MAX_REPLICAS = 64
/** Those of replicas that are gone stay until another one has counted them out. */
export const MAX_LEASES = 1000
const MAX_NAME = 253

const names = z.string().max(MAX_REPLICAS * (MAX_NAME + 1))
const numbers = z.string().regex(/^(?:\d{1,3}(?:,\d{1,3}){0,255})?$/)

export const replicaLease = z.object({
  metadata: objectMeta.extend({
    annotations: z.looseObject({
      [REPLICA_ANNOTATION]: z.string().min(1).max(MAX_NAME),
      [VIEW_ANNOTATION]: names.transform(split),
      [DRAINING_ANNOTATION]: numbers.transform((text) => split(text).map(Number)),
    }),
  }),
  spec: z.object({
    /** The session. */
    holderIdentity: z.string().min(1).max(512),
    leaseDurationSeconds: z.int().min(1).max(3600),
  }),
})

/** When a replica has said last that it lives, and for how long that counts. */
export const leaseTimes = z.object({
  spec: z.object({ renewTime: z.string(), leaseDurationSeconds: z.number() }),
})

function split(text: string): string[] {
  return text === '' ? [] : text.split(',')
}

/** Lease of a replica of the facade: that it lives, and what it has seen of endpoints. */

/** The role in `davit.dev/replica-of`. */
export const API_ROLE = 'api'
/** Every change of a WebhookEndpoint up to this resourceVersion is known to the replica. */
export const ENDPOINTS_SEEN_ANNOTATION = `${GROUP}/endpoints-seen`

export const apiReplicaLease = z.object({
  metadata: objectMeta.extend({
    annotations: z.looseObject({
      [ENDPOINTS_SEEN_ANNOTATION]: z
        .string()
        .regex(/^\d{1,15}$/)
        .transform(Number),
    }),
  }),
  spec: z.object({
    /** The session. */
    holderIdentity: z.string().min(1).max(512),
    leaseDurationSeconds: z.int().min(1).max(3600),
  }),
})
