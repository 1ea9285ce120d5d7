/** The delivery index of the REST server on an API in memory, with time that stands still. */

import type { AcceptedEvent } from '../../src/apis/delivery-segment.ts'
import { sortableName } from '../../src/apis/ids.ts'
import type { ResourceReader, ResourceWriter } from '../../src/kube/client.ts'
import { OpenDeliveryIndex } from '../../src/server/delivery-index/delivery-index.ts'
import type { LogQuery } from '../../src/server/delivery-index/queries.ts'
import type { DeliveryDetail, DeliveryLine } from '../../src/server/delivery-resource.ts'
import { KubernetesLogStore } from '../../src/webhooks/log/kubernetes-store.ts'
import { FakeClock, fixedRandom, settle } from './fake-clock.ts'
import { LogApi } from './log-api.ts'
import { NO_RUNTIME_METRICS } from './no-metrics.ts'

export const START = Date.UTC(2026, 0, 31, 12)
export const BILLING = { namespace: 'org', name: 'billing', uid: 'uid-a' }
export const ATTEMPT = { at: '2026-01-31T12:00:01.000Z', latencyMs: 12, code: 200 }
export const FAILED = { at: '2026-01-31T12:00:01.000Z', latencyMs: 12, code: 503, error: 'HTTP 503' }
export const ALL = { limit: 50 }

/** The 26 characters of an id that was accepted this many seconds after the start. */
export function nameAt(number: number): string {
  return sortableName(START + number * 1000, new Uint8Array(10))
}

export function idAt(number: number): string {
  return `msg_${nameAt(number)}`
}

export function event(number: number, uid = 'uid-a'): AcceptedEvent {
  const accepted = { id: nameAt(number), namespace: 'org', type: 'test.happened', payload: '{}' }
  return { event: accepted, targets: [{ name: 'billing', uid }] }
}

/** The record of a success. @param version of its segment */
export function sent(version: number, index = 0) {
  return { kind: 'sent', position: { version, index }, attempt: ATTEMPT, object: false } as const
}

export class DeliveryIndexBed {
  readonly api = new LogApi()
  readonly clock = new FakeClock()
  readonly logLines: string[] = []
  readonly index: OpenDeliveryIndex
  readonly store: KubernetesLogStore

  constructor(maxEntries = 1000) {
    const say = (_event: string, message: string) => void this.logLines.push(message)
    const { api, clock } = this
    const random = fixedRandom(0)
    const needs = {
      api,
      clock,
      random,
      log: { info: say, warn: say, error: say },
      metrics: NO_RUNTIME_METRICS,
    }
    const resources = api as unknown as ResourceReader & ResourceWriter
    this.store = new KubernetesLogStore({ resources, namespace: 'org', clock, random, watching: needs })
    this.index = new OpenDeliveryIndex({ needs, store: this.store, maxEntries })
  }

  async start(): Promise<void> {
    this.index.start()
    await this.index.ready
    await settle()
  }

  async lines(query: LogQuery = ALL): Promise<DeliveryLine[]> {
    return (await this.index.list([BILLING], query)).deliveries
  }

  async ids(): Promise<string[]> {
    return (await this.lines()).map(({ deliveryId }) => deliveryId)
  }

  read(number: number): Promise<DeliveryDetail | undefined> {
    return this.index.read(BILLING, idAt(number))
  }
}
