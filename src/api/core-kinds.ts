/** The kinds of Kubernetes itself that Davit reads or writes. */
import { z } from 'zod'
import { objectMeta, type ResourceType } from './meta.ts'

export const namespaces: ResourceType = { group: '', version: 'v1', plural: 'namespaces', namespaced: false }
export const secrets: ResourceType = { group: '', version: 'v1', plural: 'secrets', namespaced: true }

export const namespace = z.object({ metadata: objectMeta })

/** `data` is base64. */
export const secret = z.object({
  metadata: objectMeta,
  type: z.string().optional(),
  data: z.record(z.string(), z.string()).optional(),
})
export type Secret = z.infer<typeof secret>
