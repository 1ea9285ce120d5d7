import { StoreError } from '../../ports/box-store.ts'

/** No space on the disk, over a quota, or over the size that a file may have. */
const NO_ROOM: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** What `work` gives. @throws StoreError whatever goes wrong in it */
export async function stored<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof StoreError) throw error
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    const message = error instanceof Error ? error.message : String(error)
    throw new StoreError(NO_ROOM.has(code) ? 'room' : 'failed', message)
  }
}
