/** Source: OCI image specification, "Content Descriptors", "Image Manifest", "Image Layout". */
import { z } from 'zod'

/** Of the algorithms that the specification registers; the name of a file cannot be anything else. */
const digest = z.string().regex(/^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/)

export const descriptor = z.looseObject({
  mediaType: z.string(),
  digest,
  size: z.int().min(0),
  annotations: z.record(z.string(), z.string()).optional(),
})
export type Descriptor = z.infer<typeof descriptor>

export const layoutIndex = z.looseObject({ schemaVersion: z.literal(2), manifests: z.array(descriptor) })

/** `urls` are where else a layer is; of one that is not to be distributed they are the only places. */
const layer = descriptor.extend({ urls: z.array(z.string()).optional() })
export type Layer = z.infer<typeof layer>

export const imageManifest = z.looseObject({
  schemaVersion: z.literal(2),
  config: descriptor,
  layers: z.array(layer),
})

/** Where a layout has a blob: algorithm, digest. */
export function blobPath({ digest: text }: { digest: string }): [string, string] {
  const [algorithm = '', hex = ''] = text.split(':')
  return [algorithm, hex]
}
