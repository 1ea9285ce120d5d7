import { z } from 'zod'
import { objectMeta } from './meta.ts'
import { REGISTRY_SECRET_TYPE } from './registry-credential.ts'

/** A Secret that is handed over, without what is in it: for a watch. */
export const handoverOutline = z.object({ metadata: objectMeta, type: z.literal(REGISTRY_SECRET_TYPE) })
export type HandoverOutline = z.infer<typeof handoverOutline>
