/** Where baked boxes are: one folder with an OCI layout per template, which is there as a whole or not at all. */
import type { BoxCredentials } from '../../apis/box-credentials.ts'

/** A service whose image is in the folder. */
export type StoredService = {
  name: string
  /** As the template has it. */
  image: string
  /** What the registry said that the image is. */
  digest: string
}

/** A place for one bake, which counts for nothing until it is published. */
export interface BoxFolder {
  /** For the copier; empty, also where there was an attempt before. */
  folderOf(service: string): Promise<string>
  readonly blobs: string
  readonly temporary: string
  /** Bytes of blobs that are there now, also of those that are still coming. */
  size(): Promise<number>
  /** Looks at every blob of a service again: that it is there, and is what its digest says. Throws StoreError. */
  verify(service: string): Promise<void>
  /** Makes one layout of all, and puts it in place by one rename. Throws StoreError, and then the box is not in place. */
  publish(services: readonly StoredService[], credentials: BoxCredentials): Promise<void>
  /** Removes it, unless it was published. */
  discard(): Promise<void>
}

export interface BoxStore {
  /** Removes what earlier bakes have left, and makes a place for this one. Throws StoreError. */
  open(): Promise<BoxFolder>
}

/** `room`: there is no space. `damaged`: a blob is not what its digest says. `failed`: anything else. */
export type StoreErrorKind = 'room' | 'damaged' | 'failed'

export class StoreError extends Error {
  override readonly name = 'StoreError'
  readonly trouble: StoreErrorKind

  constructor(trouble: StoreErrorKind, message: string) {
    super(message)
    this.trouble = trouble
  }
}
