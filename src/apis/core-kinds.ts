import { z } from 'zod'
import { GROUP, objectMeta, type ResourceType } from './meta.ts'

/** The built-in kinds of Kubernetes that Davit reads or writes. */

/** A kind that lives in namespaces. */
function namespaced(group: string, plural: string): ResourceType {
  return { group, version: 'v1', plural, namespaced: true }
}

export const namespaces: ResourceType = { group: '', version: 'v1', plural: 'namespaces', namespaced: false }
export const secrets = namespaced('', 'secrets')
export const configMaps = namespaced('', 'configmaps')

export const serviceAccounts = namespaced('', 'serviceaccounts')
/** Annotation of a ServiceAccount: the role that its pods may assume (IRSA of EKS). */
export const ROLE_ARN_ANNOTATION = 'eks.amazonaws.com/role-arn'

export const persistentVolumeClaims = namespaced('', 'persistentvolumeclaims')
export const pods = namespaced('', 'pods')
export const deployments = namespaced('apps', 'deployments')
export const events = namespaced('', 'events')
/** The same objects by their newer API. */
export const newerEvents = namespaced('events.k8s.io', 'events')
export const jobs = namespaced('batch', 'jobs')

export const pod = z.object({ status: z.object({ phase: z.string().optional() }).optional() })

export const namespace = z.object({ metadata: objectMeta })

const ownerReference = z.object({ kind: z.string(), name: z.string(), controller: z.boolean().optional() })

/** `data` is base64. */
export const secret = z.object({
  metadata: objectMeta.extend({
    ownerReferences: z.array(ownerReference).optional(),
    managedFields: z.unknown().optional(),
  }),
  type: z.string().optional(),
  data: z.record(z.string(), z.string()).optional(),
})
export type Secret = z.infer<typeof secret>

export const configMap = z.object({
  metadata: objectMeta,
  data: z.record(z.string(), z.string()).optional(),
})

export const tokenReview = z.object({
  status: z.object({
    authenticated: z.boolean().default(false),
    audiences: z.array(z.string()).default([]),
    error: z.string().default(''),
    user: z
      .object({
        username: z.string().default(''),
        uid: z.string().default(''),
        groups: z.array(z.string()).default([]),
        extra: z.record(z.string(), z.array(z.string())).default({}),
      })
      .optional(),
  }),
})

export const subjectAccessReview = z.object({
  status: z.object({
    allowed: z.boolean().default(false),
    denied: z.boolean().default(false),
    evaluationError: z.string().default(''),
  }),
})

/**
 * Leases (coordination.k8s.io) with which replicas show that they are alive: controllers, and what shards they assign to whom; REST
 * servers, and which endpoints they know. And Leases with which REST servers reserve places of a quota.
 */

export const leases = namespaced('coordination.k8s.io', 'leases')

/** The role of the replica. */
export const REPLICA_LABEL = `${GROUP}/replica-of`
/** Names of the replicas that it assigns shards to, separated by commas. */
export const VIEW_ANNOTATION = `${GROUP}/view`
/** Shards that it no longer owns and still has work in progress for, separated by commas. */
export const DRAINING_ANNOTATION = `${GROUP}/draining`
/** The replica's name, as in views. */
export const REPLICA_ANNOTATION = `${GROUP}/replica`

export const MAX_REPLICAS = 64
/** Leases of dead replicas stay until another replica removes them. */
export const MAX_LEASES = 1000
const MAX_NAME = 253

/** `holderIdentity`: the session. */
const leaseSpec = z.object({
  holderIdentity: z.string().min(1).max(512),
  leaseDurationSeconds: z.int().min(1).max(3600),
})
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
  spec: leaseSpec,
})

/** The last heartbeat of a replica, and how long it counts. */
export const leaseTimes = z.object({
  spec: z.object({ renewTime: z.string(), leaseDurationSeconds: z.number() }),
})

function split(text: string): string[] {
  return text === '' ? [] : text.split(',')
}

/** The value of `davit.dev/replica-of` for REST servers. */
export const API_ROLE = 'api'
/** The replica knows every change of a WebhookEndpoint up to this resourceVersion. */
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
  spec: leaseSpec,
})

/** The public keys with which the API server signs tokens (RFC 7517). */
export const jsonWebKeySet = z.object({
  keys: z.array(z.looseObject({ kty: z.string(), kid: z.string() })).max(100),
})

/** On the Lease of an object that a REST server is about to create: the plural of its kind, and its namespace. */
export const RESERVATION_LABEL = `${GROUP}/reservation-of`
export const RESERVED_IN_LABEL = `${GROUP}/reserved-in`
/** Objects of a kind that all REST servers may be creating in one organization. */
export const MAX_RESERVATIONS = 1000

export const reservation = z.object({
  metadata: objectMeta.extend({ resourceVersion: z.string(), creationTimestamp: z.string() }),
})
