/** The built-in kinds of Kubernetes that Davit reads or writes. */
import { z } from 'zod'
import { objectMeta, type ResourceType } from './meta.ts'

export const namespaces: ResourceType = { group: '', version: 'v1', plural: 'namespaces', namespaced: false }
export const secrets: ResourceType = { group: '', version: 'v1', plural: 'secrets', namespaced: true }
export const configMaps: ResourceType = { group: '', version: 'v1', plural: 'configmaps', namespaced: true }

export const serviceAccounts: ResourceType = {
  group: '',
  version: 'v1',
  plural: 'serviceaccounts',
  namespaced: true,
}
/** Annotation of a ServiceAccount: the role that its pods may assume (IRSA of EKS). */
export const ROLE_ARN_ANNOTATION = 'eks.amazonaws.com/role-arn'

export const persistentVolumeClaims: ResourceType = {
  group: '',
  version: 'v1',
  plural: 'persistentvolumeclaims',
  namespaced: true,
}
export const pods: ResourceType = { group: '', version: 'v1', plural: 'pods', namespaced: true }
export const deployments: ResourceType = {
  group: 'apps',
  version: 'v1',
  plural: 'deployments',
  namespaced: true,
}
export const events: ResourceType = { group: '', version: 'v1', plural: 'events', namespaced: true }
export const jobs: ResourceType = { group: 'batch', version: 'v1', plural: 'jobs', namespaced: true }

export const pod = z.object({ status: z.object({ phase: z.string().optional() }).optional() })

export const namespace = z.object({ metadata: objectMeta })

/** `data` is base64. */
export const secret = z.object({
  metadata: objectMeta,
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
