/** A long log of one endpoint, written to the API server as Davit writes it, without anything having been sent. */

import {
  type AcceptedEvent,
  deliverySegmentKind,
  deliverySegments,
} from '../../../src/apis/delivery-segment.ts'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL, type ResourceType } from '../../../src/apis/meta.ts'
import {
  encodeLogRecord,
  type OutcomeRecord,
  outcomeSegmentKind,
  outcomeSegments,
} from '../../../src/apis/outcome-segment.ts'
import type { ResourceWriter } from '../../../src/kube/client.ts'
import type { Random } from '../../../src/lib/time.ts'
import { acceptEvent } from '../../../src/webhooks/events/plan.ts'
import { segmentSpec } from '../../../src/webhooks/log/codec.ts'

export type StoredLog = {
  /** The operator's namespace. */
  namespace: string
  organization: string
  endpoint: { name: string; uid: string }
  lines: number
}

export const USUAL_TYPE = 'environment.started'
/** Of one event in so many. */
export const RARE_TYPE = 'environment.stopped'
const RARE_OF = 1000
/** One delivery of so many has failed and waits; the oldest of all is exhausted, all others were sent. */
const FAILED_OF = 100
/** As many as fit. */
const PER_SEGMENT = 800
const WRITERS = 8

export async function writeStoredLog(
  log: StoredLog,
  world: { api: ResourceWriter; random: Random; now: number },
): Promise<void> {
  let next = 0
  const writer = async () => {
    while (next < log.lines) {
      const first = next
      next = Math.min(log.lines, next + PER_SEGMENT)
      await writeSegments(log, { first, end: next }, world)
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, writer))
}

async function writeSegments(
  log: StoredLog,
  { first, end }: { first: number; end: number },
  world: { api: ResourceWriter; random: Random; now: number },
): Promise<void> {
  const { random, now } = world
  const numbers = Array.from({ length: end - first }, (_, index) => first + index)
  const events = numbers.map((number): AcceptedEvent => {
    // A line a millisecond, the last one now.
    const acceptedAt = now - log.lines + number
    const name = sortableName(acceptedAt, random.bytes(NAME_ENTROPY_BYTES))
    const type = number % RARE_OF === 0 ? RARE_TYPE : USUAL_TYPE
    const event = {
      name,
      namespace: log.organization,
      type,
      dataText: `{"n":${number}}`,
      happenedAt: acceptedAt,
    }
    return acceptEvent(event, [log.endpoint])
  })
  const version = await write(world, log.namespace, {
    type: deliverySegments,
    kind: deliverySegmentKind.kind,
    spec: segmentSpec(events, 'bench', now),
  })
  const records = numbers.map((number, index) =>
    encodeLogRecord(recordOf(number, { version, index }, now - log.lines + number)),
  )
  await write(world, log.namespace, {
    type: outcomeSegments,
    kind: outcomeSegmentKind.kind,
    spec: { writtenAt: now, writer: 'bench', lowWater: '0', records: records.join('\n') },
  })
}

function recordOf(number: number, position: { version: number; index: number }, at: number): OutcomeRecord {
  const attempt = { at: new Date(at).toISOString(), latencyMs: 12 }
  // The oldest of all has no next attempt.
  if (number === 0) return { kind: 'failed', position, attempt, nextAttemptAt: 0 }
  if (number % FAILED_OF === 0) return { kind: 'failed', position, attempt, nextAttemptAt: at + 30_000 }
  return { kind: 'sent', position, attempt: { ...attempt, code: 200 }, object: false }
}

async function write(
  { api, random, now }: { api: ResourceWriter; random: Random; now: number },
  namespace: string,
  { type, kind, spec }: { type: ResourceType; kind: string; spec: object },
): Promise<number> {
  const name = sortableName(now, random.bytes(NAME_ENTROPY_BYTES))
  const metadata = { name, namespace, labels: { [NO_BACKUP_LABEL]: 'true' } }
  const object = { apiVersion: API_VERSION, kind, metadata, spec }
  const written = await api.create(type, object, { answer: 'metadata' })
  return Number(written.metadata.resourceVersion)
}
