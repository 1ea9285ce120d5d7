import { setTimeout as sleep } from 'node:timers/promises'
import type { ResourceType } from '../../src/apis/meta.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'

/** An API whose watches of a kind are late. @param delayMs called for each chunk */
export function lateWatches(
  api: KubernetesClient,
  type: ResourceType,
  delayMs: () => number,
): KubernetesClient {
  return {
    ...api,
    async *watch(of, query, version, signal) {
      for await (const events of api.watch(of, query, version, signal)) {
        if (of.plural === type.plural) await sleep(delayMs())
        yield events
      }
    },
  }
}
