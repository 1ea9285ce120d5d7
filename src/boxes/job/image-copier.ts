/** Brings an image from its registry into a folder, with a container tool that people know. */
import type { RegistryLogin } from '../registry/outcome.ts'

export type CopyOrder = {
  /** As `ghcr.io/acme/api@sha256:...`; with a tag where the digest is not known. */
  image: string
  /** The host that the login is for. */
  registry: string
  /** Absent: nobody logs in, whatever this machine knows. */
  login?: RegistryLogin
  /** As `linux/amd64` or `linux/arm64/v8`. Absent: that of this machine. */
  platform?: string
  /** A folder of its own for what the tool writes beside blobs: an OCI layout without them. */
  folder: string
  /** Where blobs go, by algorithm and digest; what is there already is not brought again. */
  blobs: string
  /** On the same disk, for what the tool writes besides. */
  temporary: string
}

export type CopyOutcome =
  | { ok: true }
  /** `exit` is the exit code, or the name of the signal that ended it. */
  | { ok: false; exit: number | string; stderr: string }

export type CopyObserver = {
  /** Each line that the tool writes, whole. @returns the line as it may be shown */
  line(text: string, stream: 'stdout' | 'stderr'): string
  signal: AbortSignal
}

export interface ImageCopier {
  /**
   * Ends with the tool: nothing of it runs any more, and nothing of the login is left. What it has written of the image stays.
   * @throws CopyError when the tool cannot be run; the reason of the signal when it aborts
   */
  copy(order: CopyOrder, watch: CopyObserver): Promise<CopyOutcome>
}

export class CopyError extends Error {
  override readonly name = 'CopyError'
}
