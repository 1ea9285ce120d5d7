import type { ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import { type Clock, createRandom, type Random } from '../../src/lib/time.ts'
import { KubernetesLogStore } from '../../src/webhooks/log/kubernetes-store.ts'

type LogOptions = { clock: Clock; random?: Random; namespace?: string }

/** The delivery log in these resources, which nobody follows. */
export function logOn(
  resources: ResourceReader & ResourceWriter,
  { clock, random = createRandom(), namespace = 'davit-system' }: LogOptions,
): KubernetesLogStore {
  return new KubernetesLogStore({ resources, namespace, clock, random })
}
