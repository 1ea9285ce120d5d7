/**
 * The API server with versions that are higher by an offset, until a test restores its store: from then on they are unchanged,
 * all watches have broken off, and earlier versions are from the future.
 */

import { ApiError, type RawObject, type WatchEvent } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'

export type ShiftedVersions = {
  api: KubernetesClient
  setBack(): void
}

export function shiftedVersions(inner: KubernetesClient, by: number): ShiftedVersions {
  let ahead = by
  const broken = new AbortController()
  const moved = (version: string, ms: number) => String(Number(version) + ms)
  const shifted = (raw: RawObject): RawObject => {
    const { resourceVersion } = raw.metadata
    if (resourceVersion === undefined) return raw
    return { ...raw, metadata: { ...raw.metadata, resourceVersion: moved(resourceVersion, ahead) } }
  }
  const event = (original: WatchEvent): WatchEvent =>
    original.type === 'BOOKMARK'
      ? { ...original, resourceVersion: moved(original.resourceVersion, ahead) }
      : { ...original, object: shifted(original.object) }
  const asked = <T extends { resourceVersion?: string | undefined }>(of: T): T =>
    of.resourceVersion === undefined ? of : { ...of, resourceVersion: moved(of.resourceVersion, -ahead) }
  const api: KubernetesClient = {
    ...inner,
    get: async (type, ref) => shifted(await inner.get(type, ref)),
    async list(type, query, from) {
      const page = await inner.list(type, query, from)
      return { ...page, items: page.items.map(shifted), resourceVersion: moved(page.resourceVersion, ahead) }
    },
    create: async (type, object, how) => shifted(await inner.create(type, object, how)),
    async patch(type, ref, patch, how) {
      const { metadata } = patch as { metadata?: { resourceVersion?: string } }
      const given = metadata === undefined ? patch : { ...patch, metadata: asked(metadata) }
      return shifted(await inner.patch(type, ref, given, how))
    },
    delete: (type, ref, precondition, how) =>
      inner.delete(type, ref, precondition && asked(precondition), how),
    async *watch(type, query, version, signal) {
      const isShifted = ahead > 0
      const end = isShifted ? AbortSignal.any([signal, broken.signal]) : signal
      for await (const events of inner.watch(type, query, moved(version, -ahead), end)) {
        if (isShifted && broken.signal.aborted) break
        yield events.map(event)
      }
      if (isShifted && broken.signal.aborted) throw new ApiError('Unavailable', 'the connection broke')
    },
  }
  return {
    api,
    setBack() {
      ahead = 0
      broken.abort()
    },
  }
}
