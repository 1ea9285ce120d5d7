import { StoreError } from './box-store.ts'

/** No space on the disk, over a quota, or over the size that a file may have. */
const OUT_OF_SPACE: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** What `work` gives. @throws StoreError whatever goes wrong in it */
export async function withStoreErrors<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const message = error instanceof Error ? error.message : String(error)
    throw new StoreError(OUT_OF_SPACE.has(code) ? 'room' : 'failed', message)
  }
}
