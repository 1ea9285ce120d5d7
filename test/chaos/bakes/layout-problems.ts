/** Checks that an OCI layout is complete: each expected image, and every blob with its digest. */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'

type Descriptor = { digest: string; size: number; annotations?: Record<string, string> }

export function layoutProblems(folder: string, services: readonly string[]): string[] {
  try {
    const read = (path: string) => JSON.parse(readFileSync(join(folder, path), 'utf8'))
    if (read('oci-layout').imageLayoutVersion !== '1.0.0') return ['it is no layout']
    const manifests: Descriptor[] = read('index.json').manifests
    const names = manifests.map(({ annotations }) => annotations?.['org.opencontainers.image.ref.name'])
    if (names.join() !== services.join()) return [`it has the services ${names.join()}`]
    return manifests.flatMap((manifest) => {
      const { config, layers } = read(`blobs/${manifest.digest.replace(':', '/')}`) as {
        config: Descriptor
        layers: Descriptor[]
      }
      return [manifest, config, ...layers].flatMap((blob) => problemOf(folder, blob) ?? [])
    })
  } catch (error) {
    return [`it cannot be read: ${(error as Error).message}`]
  }
}

function problemOf(folder: string, { digest, size }: Descriptor): string | undefined {
  const path = join(folder, 'blobs', digest.replace(':', '/'))
  if (!existsSync(path)) return `the blob ${digest} is missing`
  const bytes = readFileSync(path)
  const found = createHash('sha256').update(bytes).digest('hex')
  return `sha256:${found}` === digest && bytes.length === size
    ? undefined
    : `the blob ${digest} is another one`
}
