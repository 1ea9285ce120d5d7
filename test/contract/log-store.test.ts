/** The delivery log on a real API server keeps the contract of its port. */

import { afterAll, beforeAll, inject } from 'vitest'
import { ApiError } from '../../src/kube/client.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { KubernetesLogStore } from '../../src/webhooks/log/kubernetes-store.ts'
import { testNamespace } from '../support/control-plane.ts'
import { FaultyApi } from '../support/faulty-api.ts'
import { describeLogStore } from '../support/log-store-contract.ts'
import { NO_RUNTIME_METRICS } from '../support/no-metrics.ts'

const clock = createClock()
const random = createRandom()
const silent = () => undefined
let client: KubernetesClient
let logs = 0

beforeAll(async () => {
  client = await connectKubernetes({ kubeconfigPath: inject('kubeconfig'), clock, random })
})
afterAll(() => client.close())

const NO_ANSWER = new ApiError('Unavailable', 'no answer')
const isCreate = ({ verb }: { verb: string }) => verb === 'create'

describeLogStore('on a real API server', async () => {
  const api = new FaultyApi(client)
  logs += 1
  const watching = {
    api,
    clock,
    random,
    log: { info: silent, warn: silent, error: silent },
    metrics: NO_RUNTIME_METRICS,
  }
  const namespace = await testNamespace(`log-store-${logs}`)
  return {
    store: new KubernetesLogStore({ resources: api, namespace, clock, random, watching }),
    loseAnswer: () => void api.fail(isCreate, { after: NO_ANSWER }),
    breakDown: () => api.fail(isCreate, { before: NO_ANSWER }, 1_000_000),
    close: async () => undefined,
  }
})
