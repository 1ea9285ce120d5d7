/** What the pod of a bake is told, as JSON in its environment. There is no secret in it. */
import { z } from 'zod'
import { MAX_IMAGE } from './bake.ts'
import { MAX_SERVICE_NAME, MAX_SERVICES, SERVICE_NAME } from './bake-result.ts'
import { DNS_LABEL } from './meta.ts'
import { credentialType } from './registry-credential.ts'

/** The variable that has it. */
export const ORDER_VARIABLE = 'DAVIT_BAKE_ORDER'
export const MAX_ORDER_BYTES = 64 * 1024
/** The longest that a bake may ever take. */
export const MAX_DEADLINE_SECONDS = 12 * 3600
/** Where the volume of the output is in a pod. */
export const OUTPUT_PATH = '/output'
/** Where a pod has memory for what must touch no disk. */
export const TMPFS_PATH = '/run/davit'

const some = (max: number) => z.string().min(1).max(max)

const label = some(63).regex(DNS_LABEL, 'must be a DNS label')

export const orderedCredential = z.object({
  /** `rc_` and the name of the credential. */
  id: some(66),
  /** Of the resource: for the map of the box. */
  uid: some(128).optional(),
  generation: z.int().min(1).optional(),
  type: credentialType,
  /** The canonical host, which is that of the image. */
  registry: some(259),
  /** token only. */
  username: some(255 * 2).optional(),
  /** token only: exactly this version is read. */
  parameter: z.object({ name: some(1011), version: z.int().min(1), region: some(64) }).optional(),
})
export type OrderedCredential = z.infer<typeof orderedCredential>

export const bakeOrder = z.object({
  /** Its name is a part of the path of its box. */
  template: z.object({ namespace: label, name: label, uid: some(128) }),
  /** Name of this bake, which no other bake of the template ever has; a single part of a path. */
  bake: z.string().regex(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/),
  services: z
    .array(
      z.object({
        name: z.string().max(MAX_SERVICE_NAME).regex(SERVICE_NAME),
        /** Canonical: with its host, and with a digest or a tag, not both. */
        image: some(MAX_IMAGE),
        credential: orderedCredential.optional(),
      }),
    )
    .min(1)
    .max(MAX_SERVICES),
  output: z.discriminatedUnion('kind', [
    z.object({
      kind: z.literal('layout'),
      path: z
        .string()
        .regex(/^\/[^:]*$/)
        .max(1024),
    }),
    z.object({ kind: z.literal('none') }),
  ]),
  /** When the controller decided what is in it. */
  orderedAt: z.iso.datetime().optional(),
  /** Of images for several; absent: that of the node. */
  platform: z.string().max(64).optional(),
  /** Hosts that may ask for a login besides the registries themselves. */
  realms: z.array(some(259)).max(64),
  /** After so long the bake ends itself, with words; a little later its Job is ended. */
  deadlineSeconds: z.int().min(1).max(MAX_DEADLINE_SECONDS),
})
export type BakeOrder = z.infer<typeof bakeOrder>
