import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest'
import { configMaps } from '../../src/apis/core-kinds.ts'
import { AggregatingRecorder } from '../../src/kube/recorder.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { kubectl, testNamespace } from '../support/control-plane.ts'
import { NO_RECORDER_METRICS } from '../support/no-metrics.ts'

const clock = createClock()
const random = createRandom()
let api: KubernetesClient
let namespace: string

beforeAll(async () => {
  api = await connectKubernetes({ kubeconfigPath: inject('kubeconfig'), clock, random })
  namespace = await testNamespace('recorder')
})
afterAll(() => api.close())

describe('an event recorder on a real API server', () => {
  it('makes what kubectl describe shows, and counts repeats', async () => {
    const about = await api.create(configMaps, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'subject', namespace },
    })
    const log = { info() {}, warn: (_event: string, message: string) => void told.push(message), error() {} }
    const told: string[] = []
    const recorder = new AggregatingRecorder({
      api,
      reporter: 'davit-0',
      clock,
      random,
      log,
      metrics: NO_RECORDER_METRICS,
    })
    const event = { type: 'Warning', reason: 'TestReason', message: 'the 𝄞 message' } as const
    for (let repeat = 0; repeat < 3; repeat += 1) {
      recorder.record(about, event)
      await recorder.drain()
    }
    const shown = await kubectl(['describe', 'configmap', 'subject', '-n', namespace])
    expect(shown).toMatch(/Warning\s+TestReason\s+.*\(x3 over .*davit.*the 𝄞 message/)
    expect(told).toEqual(['recorded an Event'])
    await recorder.drain()
  })
})
