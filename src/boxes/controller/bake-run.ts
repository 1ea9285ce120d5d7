/** What Kubernetes tells of a bake: its Job, its pod, and what kept the pod from being made. Written by others: bounded, and never trusted. */
import { z } from 'zod'
import { objectMeta } from '../../apis/meta.ts'

const ownedMeta = objectMeta.extend({
  ownerReferences: z.array(z.object({ kind: z.string(), name: z.string(), uid: z.string() })).optional(),
})

const reportedCondition = z.object({
  type: z.string(),
  status: z.string(),
  reason: z.string().default(''),
  message: z.string().default(''),
  /** Null where whoever wrote it gave none. */
  lastTransitionTime: z.string().nullish(),
})

const count = z.number().default(0)

export const bakeJob = z.object({
  metadata: ownedMeta,
  spec: z.object({ suspend: z.boolean().nullish() }).default({}),
  status: z
    .object({
      conditions: z.array(reportedCondition).default([]),
      /** Pods that it has, and that it has had. */
      active: count,
      succeeded: count,
      failed: count,
      /** When it was begun, or resumed. */
      startTime: z.string().nullish(),
    })
    .default({ conditions: [], active: 0, succeeded: 0, failed: 0 }),
})
export type BakeJob = z.infer<typeof bakeJob>

const terminatedState = z.object({
  exitCode: z.number().default(0),
  reason: z.string().default(''),
  message: z.string().default(''),
})

const containerStatus = z.object({
  name: z.string(),
  state: z
    .object({
      waiting: z.object({ reason: z.string().default(''), message: z.string().default('') }).optional(),
      running: z.object({ startedAt: z.string().optional() }).optional(),
      terminated: terminatedState.optional(),
    })
    .default({}),
})

export const bakePod = z.object({
  metadata: ownedMeta,
  status: z
    .object({
      phase: z.string().default('Pending'),
      reason: z.string().default(''),
      message: z.string().default(''),
      conditions: z.array(reportedCondition).default([]),
      containerStatuses: z.array(containerStatus).default([]),
    })
    .default({ phase: 'Pending', reason: '', message: '', conditions: [], containerStatuses: [] }),
})
export type BakePod = z.infer<typeof bakePod>

/** An Event of Kubernetes. */
export const clusterEvent = z.object({
  metadata: objectMeta,
  /** When it was last seen; those of newer clients have a series instead. */
  lastTimestamp: z.string().nullish(),
  eventTime: z.string().nullish(),
  series: z.object({ lastObservedTime: z.string().nullish() }).nullish(),
  reason: z.string().default(''),
  message: z.string().default(''),
})
export type ClusterEvent = z.infer<typeof clusterEvent>
