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

/** `urls` are of layers that are not to be distributed, which a layout may be without. */
export const imageManifest = z.looseObject({
  schemaVersion: z.literal(2),
  config: descriptor,
  layers: z.array(descriptor.extend({ urls: z.array(z.string()).optional() })),
})

/** Where a layout has a blob: algorithm, digest. */
export function blobPath({ digest: text }: { digest: string }): [string, string] {
  const [algorithm = '', hex = ''] = text.split(':')
  return [algorithm, hex]
}
