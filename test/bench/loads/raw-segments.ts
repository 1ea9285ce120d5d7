/**
 * Writes a segment for the events that arrived during the previous write, signs and sends each, and writes a segment of their
 * outcomes: the writes of Davit's log, without watches, queues, retries or recovery.
 */

import {
  type AcceptedEvent,
  deliverySegmentKind,
  deliverySegments,
} from '../../../src/apis/delivery-segment.ts'
import { messageId, NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { API_VERSION, NO_BACKUP_LABEL, type ResourceType } from '../../../src/apis/meta.ts'
import { encodeLogRecord, outcomeSegmentKind, outcomeSegments } from '../../../src/apis/outcome-segment.ts'
import type { ResourceWriter } from '../../../src/kube/client.ts'
import type { Clock, Random } from '../../../src/lib/time.ts'
import { acceptEvent } from '../../../src/webhooks/events/plan.ts'
import { planSegments, segmentSpec } from '../../../src/webhooks/log/codec.ts'
import { GroupCommit } from '../../../src/webhooks/log/group-commit.ts'
import type { WebhookSender } from '../../../src/webhooks/sender/send-failures.ts'
import { createWebhookSender } from '../../../src/webhooks/sender/sender.ts'
import { signatureHeader } from '../../../src/webhooks/sender/signature.ts'
import { microseconds } from '../measure/instant.ts'
import type { RawResult } from '../processes/raw.ts'
import { ENVELOPE_BYTES, stampedData } from './event.ts'
import { closedLoop } from './pace.ts'

export type RawSegmentsLoad = {
  kubeconfigPath: string
  namespace: string
  receiver: string
  run: number
  bytes: number
  publishers: number
  seconds: number
  /** Sends at a time. */
  concurrency: number
}

type RawWorld = { api: ResourceWriter; clock: Clock; random: Random }
type Append = { events: AcceptedEvent[] }

const SECRET = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
const UID = '00000000-0000-0000-0000-000000000000'
const OUTCOME_LINGER_MS = 3
const DEADLINE_MS = 20_000
export async function rawSegments(load: RawSegmentsLoad, world: RawWorld): Promise<RawResult> {
  const { clock, random } = world
  const sender = createWebhookSender({ networks: { allowed: ['127.0.0.0/8'] }, clock })
  const log = new GroupCommit<Append, number>({
    plan: planSegments,
    write: (batch) => writeEvents(world, load.namespace, batch),
    isCulprit: () => false,
    maxWaiting: 100_000,
    clock,
  })
  const outcomes = new GroupCommit<string, void>({
    plan: (records) => [records],
    write: (batch) => writeOutcomes(world, load.namespace, batch),
    isCulprit: () => false,
    maxInFlight: 2,
    maxWaiting: 100_000,
    lingerMs: OUTCOME_LINGER_MS,
    clock,
  })
  const gate = new Gate(load.concurrency)
  const recorded: Promise<void>[] = []
  const startedAt = microseconds()
  await closedLoop(load, async (n, at) => {
    const name = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
    const dataText = stampedData({ run: load.run, n, at }, load.bytes - ENVELOPE_BYTES)
    const event = { name, namespace: 'bench', type: 'environment.started', dataText, happenedAt: clock.now() }
    const accepted = acceptEvent(event, [{ name: 'endpoint', uid: UID }])
    const version = await log.add({ events: [accepted] })
    recorded.push(
      gate
        .run(() => send(sender, load.receiver, accepted))
        .then((attempt) =>
          outcomes.add(
            encodeLogRecord({ kind: 'sent', position: { version, index: n % 4096 }, attempt, object: false }),
          ),
        ),
    )
  })
  await Promise.all(recorded)
  await sender.close()
  return { deliveries: recorded.length, startedAt, endedAt: microseconds() }
}

async function send(sender: WebhookSender, url: string, { event }: AcceptedEvent) {
  const id = messageId(event.id)
  const startedAt = Date.now()
  const timestamp = Math.floor(startedAt / 1000)
  const body = Buffer.from(event.payload)
  const headers = {
    'content-type': 'application/json',
    'user-agent': 'Davit/bench',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signatureHeader({ id, body, timestamp }, [SECRET]),
  }
  const outcome = await sender.send({ url, headers, body, deadlineMs: DEADLINE_MS })
  if (outcome.kind === 'failure') throw new Error(outcome.error)
  return {
    at: new Date(startedAt).toISOString(),
    latencyMs: Math.round(outcome.latencyMs),
    code: outcome.code,
  }
}

async function writeEvents(world: RawWorld, namespace: string, batch: readonly Append[]): Promise<number[]> {
  const events = batch.flatMap((append) => append.events)
  const spec = segmentSpec(events, 'bench', world.clock.now())
  const version = await write(world, deliverySegments, { kind: deliverySegmentKind.kind, namespace, spec })
  return batch.map(() => version)
}

async function writeOutcomes(
  world: RawWorld,
  namespace: string,
  records: readonly string[],
): Promise<undefined[]> {
  const spec = { writtenAt: world.clock.now(), writer: 'bench', lowWater: '0', records: records.join('\n') }
  await write(world, outcomeSegments, { kind: outcomeSegmentKind.kind, namespace, spec })
  return records.map(() => undefined)
}

async function write(
  { api, clock, random }: RawWorld,
  type: ResourceType,
  { kind, namespace, spec }: { kind: string; namespace: string; spec: object },
): Promise<number> {
  const name = sortableName(clock.now(), random.bytes(NAME_ENTROPY_BYTES))
  const metadata = { name, namespace, labels: { [NO_BACKUP_LABEL]: 'true' } }
  const written = await api.create(
    type,
    { apiVersion: API_VERSION, kind, metadata, spec },
    { answer: 'metadata' },
  )
  return Number(written.metadata.resourceVersion)
}

/** So many at a time, the rest in order. */
class Gate {
  #free: number
  readonly #waiting: (() => void)[] = []

  constructor(places: number) {
    this.#free = places
  }

  async run<T>(act: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free -= 1
    else await new Promise<void>((resolve) => this.#waiting.push(resolve))
    try {
      return await act()
    } finally {
      const next = this.#waiting.shift()
      if (next) next()
      else this.#free += 1
    }
  }
}
