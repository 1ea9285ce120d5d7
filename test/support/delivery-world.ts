/**
 * The deliveries in the store of a cluster, and how they change: each delivery follows one of the scripts, one write at a time,
 * and each write is a watch event of its kind. For tests of their readers.
 */

import { endpointTag, sortableName } from '../../src/apis/ids.ts'
import {
  encodeLogRecord,
  type LogRecord,
  newOutcomeSegment,
  type OutcomeRecord,
} from '../../src/apis/outcome-segment.ts'
import type { DeliveryState } from '../../src/apis/webhook-delivery.ts'
import { shardOf } from '../../src/ha/assignment.ts'
import type { RawObject } from '../../src/kube/client.ts'
import type { LogSegment } from '../../src/webhooks/log/store.ts'

export type WorldEndpoint = { namespace: string; name: string; uid: string }

export type WorldObject = {
  key: string
  version: number
  endpoint: WorldEndpoint
  id: string
  state: DeliveryState
  attempts: number
  at: number
}

export type WorldOutcomes = {
  name: string
  version: number
  writtenAt: number
  /** Its writer, by number and by name. */
  owner: number
  writer: string
  records: LogRecord[]
}

export type WorldEvent =
  | { kind: 'segments'; version: number; segment: LogSegment; gone: boolean }
  | { kind: 'outcomes'; version: number; outcomes: WorldOutcomes }
  | { kind: 'objects'; version: number; object: WorldObject; gone: boolean }

type Step =
  | { record: 'sent'; object: boolean }
  | { record: 'failed'; last?: boolean }
  | { record: 'moved' | 'canceled' | 'duplicate' | 'begin' | 'creating' }
  | { object: DeliveryState; attempts: number }
  | { remove: true }

const object = (state: DeliveryState, attempts: number): Step => ({ object: state, attempts })
const failed: Step = { record: 'failed' }
const moved: Step = { record: 'moved' }
const remove: Step = { remove: true }
const made = object('pending', 0)

/** The possible histories of a delivery. */
export const SCRIPTS: readonly (readonly Step[])[] = [
  [{ record: 'sent', object: false }],
  [{ record: 'sent', object: true }, made, object('succeeded', 1), moved, remove],
  [failed, made, object('retrying', 1), moved, object('retrying', 2), object('succeeded', 3), remove],
  [failed, made, object('retrying', 1), moved, object('exhausted', 8)],
  [made, moved, object('retrying', 1), object('succeeded', 2), remove],
  [made, remove, moved],
  [{ record: 'canceled' }],
  [{ record: 'begin' }, failed, failed, { record: 'sent', object: false }],
  [{ record: 'creating' }, { record: 'moved' }],
  [failed, failed, { record: 'canceled' }],
  [failed, failed, failed, failed, failed, failed, failed, { record: 'failed', last: true }, moved],
  [{ record: 'sent', object: true }, moved],
  [],
]

const DUPLICATE: readonly Step[] = [{ record: 'duplicate' }]

type WorldDelivery = {
  segment: LogSegment
  index: number
  endpoint: WorldEndpoint
  id: string
  left: Step[]
  /** Its records, in order. */
  records: OutcomeRecord[]
  duplicate: boolean
  segmentGone: boolean
}

/** The expected content of a line. `at` only if the delivery has ended. */
export type WorldLine = { id: string; state: DeliveryState; attempts: number; endedAt: number | undefined }

const START = Date.UTC(2026, 0, 31, 12)
const MINUTE = 60_000

export class DeliveryWorld {
  version = 100
  readonly segments = new Map<string, LogSegment>()
  readonly outcomes: WorldOutcomes[] = []
  readonly objects = new Map<string, WorldObject>()
  readonly events: WorldEvent[] = []
  readonly endpoints: readonly WorldEndpoint[]
  readonly #deliveries: WorldDelivery[] = []
  #made = 0
  /** How many controllers have driven the endpoints, one after the other. */
  #owners = 1

  constructor(endpoints: number) {
    this.endpoints = Array.from({ length: endpoints }, (_, number) => ({
      namespace: `org-${number % 2}`,
      name: `endpoint-${number}`,
      uid: `uid-${number}`,
    }))
  }

  /** Appends a segment with deliveries of new events. @param scripts history of each of them */
  accept(deliveries: readonly { endpoint: number; script: number; older: number }[]): LogSegment {
    const segment = this.#newSegment()
    for (const { endpoint, script, older } of deliveries) {
      this.#made += 1
      const entropy = Buffer.alloc(10)
      entropy.writeUInt32BE(this.#made, 6)
      const id = sortableName(START + (this.#made - older) * 10, entropy)
      this.#add(segment, id, { endpoint, steps: SCRIPTS[script % SCRIPTS.length] ?? [], duplicate: false })
    }
    this.#tellSegment(segment, false)
    return segment
  }

  /** Appends a duplicate of a delivery behind its first position. */
  acceptAgain(which: number): LogSegment | undefined {
    const first = this.#deliveries[which % Math.max(1, this.#deliveries.length)]
    if (!first || first.duplicate || first.segmentGone) return undefined
    const segment = this.#newSegment()
    const endpoint = this.endpoints.indexOf(first.endpoint)
    this.#add(segment, first.id, { endpoint, steps: DUPLICATE, duplicate: true })
    this.#tellSegment(segment, false)
    return segment
  }

  /** Executes the next write of a delivery's history. */
  advance(which: number): void {
    const open = this.#deliveries.filter(({ left }) => left.length > 0)
    const delivery = open[which % Math.max(1, open.length)]
    const step = delivery?.left.shift()
    if (!delivery || !step) return
    if ('record' in step) this.#record(delivery, step)
    else if ('object' in step) this.#show(delivery, step.object, step.attempts)
    else this.#removeObject(keyOf(delivery))
  }

  /** Another controller claims all shards. */
  handOver(): void {
    const after = this.version
    this.#owners += 1
    const shards = this.endpoints.map(({ uid }) => shardOf(uid))
    this.#write([{ kind: 'claim', shards, after }])
  }

  /** A controller that was replaced writes of a delivery what no longer counts. */
  writeLate(which: number): void {
    const delivery = this.#deliveries[which % Math.max(1, this.#deliveries.length)]
    if (!delivery || this.#owners === 1) return
    const position = { version: delivery.segment.version, index: delivery.index }
    const steps: Extract<Step, { record: string }>[] = [
      { record: 'sent', object: false },
      { record: 'failed', last: which % 2 === 0 },
      { record: 'moved' },
      { record: 'canceled' },
    ]
    const step = steps[which % steps.length]
    if (step) this.#write([recordOf(step, position, START + this.version)], this.#owners - 1)
  }

  /** An earlier segment is written once more under another name, since its first write had no answer. */
  repeat(which: number): void {
    const written = this.outcomes[which % Math.max(1, this.outcomes.length)]
    if (written?.records.every(({ kind }) => kind !== 'claim')) this.#write(written.records, written.owner)
  }

  /** Reports the duplicate positions, which happens soon: until then a duplicate may be taken for a delivery. */
  settleDuplicates(): void {
    for (const delivery of this.#deliveries) {
      const step = delivery.duplicate ? delivery.left.shift() : undefined
      if (step && 'record' in step) this.#record(delivery, step)
    }
  }

  /** Deletes a segment whose deliveries have all ended. */
  removeSegment(which: number): void {
    const closed = [...this.segments.values()].filter((segment) =>
      this.#deliveries.every((delivery) => delivery.segment !== segment || this.#isClosed(delivery)),
    )
    const segment = closed[which % Math.max(1, closed.length)]
    if (!segment) return
    this.version += 1
    this.segments.delete(segment.name)
    for (const delivery of this.#deliveries) if (delivery.segment === segment) delivery.segmentGone = true
    this.#tellSegment(segment, true)
  }

  /** The expected lines of an endpoint, newest first. */
  linesOf(endpoint: WorldEndpoint): WorldLine[] {
    const lines = new Map<string, WorldLine>()
    for (const delivery of this.#deliveries) {
      if (delivery.endpoint !== endpoint || delivery.duplicate || delivery.segmentGone) continue
      const line = lineOf(delivery, this.objects.get(keyOf(delivery)))
      if (line) lines.set(line.id, line)
    }
    for (const { id, state, attempts, at, ...stored } of this.objects.values()) {
      if (stored.endpoint !== endpoint || lines.has(id)) continue
      lines.set(id, { id, state, attempts, endedAt: isEnd(state) ? at : undefined })
    }
    return [...lines.values()].sort((a, b) => (a.id < b.id ? -1 : 1))
  }

  /** Deliveries of an endpoint that have lines and no object, with the times of the attempts that count, oldest first. */
  loggedOf(endpoint: WorldEndpoint): { id: string; attemptTimes: string[] }[] {
    const listed = new Set(this.linesOf(endpoint).map(({ id }) => id))
    return this.#deliveries.flatMap((delivery) => {
      const { id, duplicate, segmentGone, records } = delivery
      const isLogged = delivery.endpoint === endpoint && !duplicate && !segmentGone && listed.has(id)
      if (!isLogged || this.objects.has(keyOf(delivery))) return []
      return { id, attemptTimes: records.flatMap((record) => ('attempt' in record ? record.attempt.at : [])) }
    })
  }

  /** Deliveries whose events are in the log, whatever became of them. */
  eventsInLog(): { endpoint: WorldEndpoint; id: string }[] {
    return this.#deliveries.filter(({ duplicate, segmentGone }) => !duplicate && !segmentGone)
  }

  /** An OutcomeSegment as it is stored. */
  storedOutcomes(name: string): RawObject | undefined {
    const found = this.outcomes.find((outcomes) => outcomes.name === name)
    if (!found) return undefined
    const { version, writtenAt, writer, records } = found
    const metadata = { name, namespace: 'davit-system', resourceVersion: String(version) }
    const text = records.map(encodeLogRecord).join('\n')
    return { metadata, spec: newOutcomeSegment({ writtenAt, writer, lowWater: '0' }, text) }
  }

  /** Whether its end and its duplicate positions are recorded. */
  #isClosed({ left, records, id }: WorldDelivery): boolean {
    const isWritten = left.every((step) => !('record' in step) && !('object' in step && step.attempts < 2))
    const others = this.#deliveries.filter((other) => other.id === id && other.duplicate)
    if (!isWritten || others.some((other) => other.left.length > 0)) return false
    return records.some(({ kind }) => kind !== 'failed' && kind !== 'begin' && kind !== 'creating')
  }

  #newSegment(): LogSegment {
    this.version += 1
    const entropy = Buffer.alloc(10)
    entropy.writeUInt32BE(this.version)
    return {
      name: sortableName(START + this.version, entropy),
      version: this.version,
      writtenAt: START,
      createdAt: START,
      deliveries: [],
      bodies: [],
      unreadable: 0,

      bytes: 1000,
    }
  }

  #add(
    segment: LogSegment,
    id: string,
    way: { endpoint: number; steps: readonly Step[]; duplicate: boolean },
  ): void {
    const endpoint = this.endpoints[way.endpoint % this.endpoints.length]
    if (!endpoint) throw new Error('there are no endpoints')
    const index = segment.deliveries.length
    const event = { id, namespace: endpoint.namespace, type: 'test.happened', bodyBytes: 2, receivers: 1 }
    segment.deliveries.push({ index, eventIndex: index, event, endpoint })
    const { steps, duplicate } = way
    const left = [...steps]
    this.#deliveries.push({ segment, index, endpoint, id, left, records: [], duplicate, segmentGone: false })
  }

  #tellSegment(segment: LogSegment, gone: boolean): void {
    if (!gone) this.segments.set(segment.name, segment)
    this.events.push({ kind: 'segments', version: this.version, segment, gone })
  }

  #record(delivery: WorldDelivery, step: Extract<Step, { record: string }>): void {
    const position = { version: delivery.segment.version, index: delivery.index }
    const record = recordOf(step, position, START + this.version + 1)
    delivery.records.push(record)
    this.#write([record])
  }

  #write(records: LogRecord[], owner = this.#owners): void {
    this.version += 1
    const { version } = this
    const about = { name: `outcomes-${version}`, version, writtenAt: START + version }
    const outcomes = { ...about, owner, writer: `controller-${owner}`, records }
    this.outcomes.push(outcomes)
    this.events.push({ kind: 'outcomes', version, outcomes })
  }

  #show(delivery: WorldDelivery, state: DeliveryState, attempts: number): void {
    const key = keyOf(delivery)
    // The object was deleted.
    if (state !== 'pending' && !this.objects.has(key)) return
    this.version += 1
    const sent = delivery.records.find(({ kind }) => kind === 'sent')
    // The log and the object report the same time for an attempt.
    const at = sent ? endOf(sent) : START + this.version
    const { endpoint, id } = delivery
    const stored = { key, version: this.version, endpoint, id, state, attempts, at }
    this.objects.set(key, stored)
    this.events.push({ kind: 'objects', version: this.version, object: stored, gone: false })
  }

  #removeObject(key: string): void {
    const stored = this.objects.get(key)
    if (!stored) return
    this.version += 1
    this.objects.delete(key)
    this.events.push({ kind: 'objects', version: this.version, object: stored, gone: true })
  }
}

function keyOf({ endpoint, id }: { endpoint: WorldEndpoint; id: string }): string {
  return `${endpoint.namespace}/${id}-${endpointTag(endpoint.uid)}`
}

function recordOf(
  step: Extract<Step, { record: string }>,
  position: { version: number; index: number },
  now: number,
): OutcomeRecord {
  const attempt = { at: new Date(now).toISOString(), latencyMs: 5 }
  switch (step.record) {
    case 'sent':
      return { kind: 'sent', position, attempt, object: step.object }
    case 'failed':
      return { kind: 'failed', position, attempt, nextAttemptAt: step.last ? 0 : now + MINUTE }
    case 'canceled':
      return { kind: 'canceled', position, reason: 'EndpointDeleted' }
    case 'duplicate':
      return { kind: 'canceled', position, reason: 'Duplicate' }
    case 'creating':
      return { kind: 'creating', position }
    case 'begin':
      return { kind: 'begin', position, attempts: 0, isAlone: false }
    case 'moved':
      return { kind: 'moved', position }
  }
}

function isEnd(state: DeliveryState): boolean {
  return state === 'succeeded' || state === 'exhausted' || state === 'canceled'
}

function endOf(record: OutcomeRecord): number {
  if (record.kind === 'sent' || record.kind === 'failed')
    return Date.parse(record.attempt.at) + record.attempt.latencyMs
  return Number.NaN
}

function lineOf({ id, records }: WorldDelivery, stored: WorldObject | undefined): WorldLine | undefined {
  const tried = records.filter(({ kind }) => kind === 'sent' || kind === 'failed')
  const logged = loggedLine(id, records, tried)
  if (stored) {
    const isBehind = !isEnd(stored.state) && tried.length > stored.attempts
    const { state, attempts, at } = stored
    return isBehind ? logged : { id, state, attempts, endedAt: isEnd(state) ? at : undefined }
  }
  const isMoved = records.some(({ kind }) => kind === 'moved')
  return isMoved && !isEnd(logged.state) ? undefined : logged
}

function loggedLine(
  id: string,
  records: readonly OutcomeRecord[],
  tried: readonly OutcomeRecord[],
): WorldLine {
  const attempts = tried.length
  const sent = records.find(({ kind }) => kind === 'sent')
  if (sent) return { id, state: 'succeeded', attempts, endedAt: endOf(sent) }
  const canceled = records.findIndex(({ kind }) => kind === 'canceled')
  // Canceled at a time that is unknown here.
  if (canceled !== -1) return { id, state: 'canceled', attempts, endedAt: undefined }
  const last = tried.find((record) => record.kind === 'failed' && record.nextAttemptAt === 0)
  if (last) return { id, state: 'exhausted', attempts, endedAt: endOf(last) }
  return { id, state: attempts > 0 ? 'retrying' : 'pending', attempts, endedAt: undefined }
}
