import { createHash } from 'node:crypto'
import { open } from 'node:fs/promises'
import { join } from 'node:path'
import { StoreError } from './box-store.ts'
import { blobPath, type Descriptor } from './descriptors.ts'

const PIECE_BYTES = 1024 * 1024

/**
 * Reads a blob from the disk and holds it against its descriptor; afterwards it is on the disk for good.
 * @throws StoreError `damaged` where it is something else
 */
export async function verifyBlob(
  blobs: string,
  blob: Descriptor,
  signal: AbortSignal | undefined,
): Promise<void> {
  const [algorithm, hex] = blobPath(blob)
  const file = await open(join(blobs, algorithm, hex), 'r')
  try {
    const hash = createHash(algorithm)
    const piece = Buffer.allocUnsafe(PIECE_BYTES)
    let size = 0
    for (;;) {
      signal?.throwIfAborted()
      const { bytesRead } = await file.read(piece, 0, PIECE_BYTES)
      if (bytesRead === 0) break
      size += bytesRead
      hash.update(piece.subarray(0, bytesRead))
    }
    const found = hash.digest('hex')
    if (found !== hex) throw damaged(blob, `its content is ${algorithm}:${found}`)
    if (size !== blob.size) throw damaged(blob, `it has ${size} bytes instead of ${blob.size}`)
    await file.sync()
  } finally {
    await file.close()
  }
}

function damaged({ digest }: Descriptor, how: string): StoreError {
  return new StoreError('damaged', `the blob ${digest} was not stored as it is: ${how}`)
}
