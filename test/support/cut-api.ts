/** A connection to the API server that a test can cut: calls fail, and watches hear nothing without noticing. */

import { ApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'

export type CutApi = {
  api: KubernetesClient
  /** Blocks both directions from now on. */
  cut(): void
  /** Lets calls through again; open watches are closed, as a dead connection eventually is. */
  restore(): void
}

const TIMEOUT_MS = 50

export function cutApi(inner: KubernetesClient): CutApi {
  let restored: PromiseWithResolvers<void> | undefined
  const call = async <T>(run: () => Promise<T>): Promise<T> => {
    if (!restored) {
      const result = await run()
      if (!restored) return result
    }
    await new Promise((resolve) => setTimeout(resolve, TIMEOUT_MS))
    throw new ApiError('Unavailable', 'no answer in time')
  }
  const api: KubernetesClient = {
    ...inner,
    get: (type, ref) => call(() => inner.get(type, ref)),
    list: (type, query, from) => call(() => inner.list(type, query, from)),
    create: (type, object, how) => call(() => inner.create(type, object, how)),
    patch: (type, ref, patch, how) => call(() => inner.patch(type, ref, patch, how)),
    delete: (type, ref, precondition) => call(() => inner.delete(type, ref, precondition)),
    async *watch(type, query, version, signal) {
      if (restored) await call(() => Promise.resolve())
      for await (const events of inner.watch(type, query, version, signal)) {
        if (restored) {
          await restored.promise
          throw new ApiError('Unavailable', 'the connection was dead')
        }
        yield events
      }
    },
  }
  return {
    api,
    cut() {
      restored ??= Promise.withResolvers()
    },
    restore() {
      restored?.resolve()
      restored = undefined
    },
  }
}
