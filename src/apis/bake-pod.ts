/**
 * What the cluster operator chooses for the Pods of bakes, in the form that Kubernetes gives these fields. The settings of the program
 * have it as JSON, and the chart has it as values. Nothing may be empty that the API server leaves out: the policy on Jobs compares.
 */

import { z } from 'zod'
import { DNS_SUBDOMAIN } from './meta.ts'

const MAX_ENTRIES = 64
const PREFIX = '([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?)*/)?'
const NAME = '[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?'

const key = z
  .string()
  .max(317)
  .regex(new RegExp(`^${PREFIX}${NAME}$`), 'must be a qualified name')
const labelValue = z
  .string()
  .max(63)
  .regex(new RegExp(`^(${NAME})?$`), 'must be a valid label value')

export const podLabels = z.record(key, labelValue)
export const podAnnotations = z.record(key, z.string().max(65_536))
export const nodeSelector = z.record(key, labelValue)

/** The name of an object. */
export const objectName = z.string().max(253).regex(DNS_SUBDOMAIN, 'must be a valid name')

export const pullPolicy = z.enum(['Always', 'IfNotPresent', 'Never'])

export const tolerations = z
  .array(
    z.strictObject({
      key: key.optional(),
      operator: z.enum(['Exists', 'Equal', 'Lt', 'Gt']).optional(),
      value: labelValue.min(1).optional(),
      effect: z.enum(['NoSchedule', 'PreferNoSchedule', 'NoExecute']).optional(),
      tolerationSeconds: z.int().optional(),
    }),
  )
  .max(MAX_ENTRIES)

/** Kubernetes checks what is in it. */
export const affinity = z.strictObject({
  nodeAffinity: z.record(z.string(), z.unknown()).optional(),
  podAffinity: z.record(z.string(), z.unknown()).optional(),
  podAntiAffinity: z.record(z.string(), z.unknown()).optional(),
})

/** The greatest ID that Kubernetes accepts. */
const MAX_ID = 2 ** 31 - 1
const id = z.int().min(0).max(MAX_ID)

const profile = z.strictObject({
  type: z.enum(['RuntimeDefault', 'Localhost']),
  localhostProfile: z.string().min(1).max(4096).optional(),
})

/**
 * Changes to the security context of the Pods; null removes a field. Only what leaves the Pods without privileges: bakes of all
 * organizations run with it.
 */
export const podSecurityContext = z.strictObject({
  runAsUser: id.min(1).nullable().optional(),
  runAsGroup: id.nullable().optional(),
  runAsNonRoot: z.literal(true).nullable().optional(),
  fsGroup: id.nullable().optional(),
  fsGroupChangePolicy: z.enum(['OnRootMismatch', 'Always']).nullable().optional(),
  supplementalGroups: z.array(id).min(1).max(MAX_ENTRIES).nullable().optional(),
  supplementalGroupsPolicy: z.enum(['Merge', 'Strict']).nullable().optional(),
  seLinuxOptions: z
    .strictObject({
      level: z.string().min(1).optional(),
      role: z.string().min(1).optional(),
      type: z.string().min(1).optional(),
      user: z.string().min(1).optional(),
    })
    .nullable()
    .optional(),
  seLinuxChangePolicy: z.enum(['MountOption', 'Recursive']).nullable().optional(),
  seccompProfile: profile.nullable().optional(),
  appArmorProfile: profile.nullable().optional(),
})

/** All are absent by default. */
export type BakePodSettings = {
  imagePullPolicy?: z.infer<typeof pullPolicy> | undefined
  /** Names of Secrets in every organization. */
  imagePullSecrets?: readonly string[] | undefined
  podSecurityContext?: z.infer<typeof podSecurityContext> | undefined
  nodeSelector?: z.infer<typeof nodeSelector> | undefined
  tolerations?: z.infer<typeof tolerations> | undefined
  affinity?: z.infer<typeof affinity> | undefined
  priorityClassName?: string | undefined
  podLabels?: z.infer<typeof podLabels> | undefined
  podAnnotations?: z.infer<typeof podAnnotations> | undefined
}
