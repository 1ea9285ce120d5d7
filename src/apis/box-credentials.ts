/**
 * `credentials.json` next to a baked layout: which credential opens which repository, for the running box and for kubelets. It holds
 * no secret; fetching one takes the rights of the box's own role.
 */

import { z } from 'zod'
import { MAX_REGION } from './aws-names.ts'
import { CREDENTIAL_PREFIX } from './ids.ts'
import { DNS_LABEL } from './meta.ts'
import { MAX_REGISTRY, MAX_USERNAME } from './registry-credential.ts'

export const BOX_CREDENTIALS_FILE = 'credentials.json'
export const MAX_BOX_CREDENTIALS_BYTES = 256 * 1024

const MAX_CREDENTIALS = 100
const MAX_REPOSITORIES = 100

const shared = {
  /** UID of the resource, which may be recreated under its name. */
  uid: z.string().min(1).max(128).optional(),
  generation: z.int().min(1).optional(),
  id: z
    .string()
    .max(CREDENTIAL_PREFIX.length + 63)
    .refine(
      (id) => id.startsWith(CREDENTIAL_PREFIX) && DNS_LABEL.test(id.slice(CREDENTIAL_PREFIX.length)),
      'must be rc_ followed by a DNS label',
    ),
  /** Canonical, such as `ghcr.io` or `registry.example.com:5000`; credentials may share one. */
  registry: z.string().min(1).max(MAX_REGISTRY),
  /** Repositories of the box that it opens, without host, such as `acme/api`. Each repository has one credential. */
  repositories: z.array(z.string().min(1).max(255)).min(1).max(MAX_REPOSITORIES),
}

export const boxCredential = z.discriminatedUnion('type', [
  z.object({
    ...shared,
    type: z.literal('token'),
    username: z.string().min(1).max(MAX_USERNAME),
    /** Location of the secret; the version that the bake read. */
    parameter: z.object({
      name: z.string().min(1).max(1011),
      version: z.int().min(1),
      region: z.string().min(1).max(MAX_REGION),
    }),
  }),
  /** Account and region follow from the host. */
  z.object({ ...shared, type: z.literal('ecr') }),
])
export type BoxCredential = z.infer<typeof boxCredential>

const label = z.string().max(63).regex(DNS_LABEL, 'must be a DNS label')

export const boxCredentials = z.object({
  version: z.literal(1),
  template: z.object({ namespace: label, name: label }),
  bake: z.string().min(1).max(63),
  /** When the controller decided the content; of two files that disagree about a credential the later one counts. */
  orderedAt: z.iso.datetime().optional(),
  bakedAt: z.iso.datetime().optional(),
  credentials: z.array(boxCredential).max(MAX_CREDENTIALS),
})
export type BoxCredentials = z.infer<typeof boxCredentials>
