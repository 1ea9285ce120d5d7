/**
 * OutcomeSegment: a group commit of one replica's delivery outcomes. Append-only, in the operator's namespace. Documented for people
 * who debug, not an API to build on.
 */
import { z } from 'zod'
import { formatPosition, type Position, parsePosition } from './delivery-segment.ts'
import { checkFormat, logFormat, packedText, packLong, unpackSpec } from './log-format.ts'
import {
  DNS_LABEL_NAME,
  isEpochMs,
  isTextOfLength,
  type KindDefinition,
  logObjectMeta,
  type RawLogObject,
  readLogMeta,
  resourceType,
  text,
} from './meta.ts'
import { type CancelReason, cancelReason, type DeliveryAttempt } from './webhook-delivery.ts'

/** Characters. */
const WRITER = { min: 1, max: 128 }
const MARK = { min: 1, max: 20 }
const RECORDS = { min: 5, max: 1_400_000 }
const DIGITS = /^[0-9]+$/

export const outcomeSegmentSpec = z
  .object({
    format: logFormat,
    writtenAt: z.int().min(0).meta({
      description: 'writtenAt is when the segment was written, in milliseconds since 1970.',
      format: 'int64',
    }),
    writer: text({ ...WRITER, describe: 'writer is the replica that wrote the segment.' }),
    lowWater: text({
      ...MARK,
      pattern: DIGITS,
      describe:
        'lowWater is a resourceVersion. When this segment was written, every delivery in segments up to it was closed.',
    }),
    records: text({
      ...RECORDS,
      describe:
        'records contains one record per line: position, kind (sent, failed, creating, moved, begin, canceled or ended) and facts as JSON; or claim, release or calm, followed by shard numbers.',
    }).optional(),
    packed: packedText,
  })
  .meta({
    description: 'spec contains records of delivery outcomes. It is immutable.',
    'x-kubernetes-map-type': 'atomic',
    oneOf: [{ required: ['packed'] }, { required: ['records'] }],
    'x-kubernetes-validations': [{ rule: 'self == oldSelf', message: 'spec is immutable' }],
  })
export type OutcomeSegmentSpec = z.infer<typeof outcomeSegmentSpec>

/** A segment to write, packed if it is long. @param writtenAt milliseconds since 1970 */
export function newOutcomeSegment(
  head: { writtenAt: number; writer: string; lowWater: string },
  records: string,
): OutcomeSegmentSpec {
  return { ...head, ...packLong({ records }) }
}

const readSpec = outcomeSegmentSpec.omit({ packed: true }).extend({
  records: text({ ...RECORDS, describe: 'records contains one record per line.' }),
})
export const outcomeSegment = z.object({ metadata: logObjectMeta, spec: readSpec })
export type OutcomeSegment = z.infer<typeof outcomeSegment>

/** The segment, unpacked. Validates the usual form by hand, as readDeliverySegment does. @throws ZodError; NewerFormatError */
export function readOutcomeSegment(raw: RawLogObject): OutcomeSegment {
  const metadata = readLogMeta(raw.metadata)
  checkFormat(String(metadata?.name), raw.spec)
  const spec = unpackSpec(raw.spec)
  const { writtenAt, writer, lowWater, records } = spec
  if (metadata && isEpochMs(writtenAt) && isTextOfLength(writer, WRITER))
    if (isTextOfLength(lowWater, MARK) && DIGITS.test(lowWater) && isTextOfLength(records, RECORDS))
      return { metadata, spec: { writtenAt, writer, lowWater, records } }
  return outcomeSegment.parse({ ...raw, spec })
}

export const outcomeSegmentKind: KindDefinition = {
  kind: 'OutcomeSegment',
  plural: 'outcomesegments',
  singular: 'outcomesegment',
  shortNames: [],
  isNumerous: true,
  scope: 'Namespaced',
  description:
    'OutcomeSegment is a group of delivery outcomes in the delivery log. It is internal to Davit and not a stable API.',
  spec: outcomeSegmentSpec,
  rules: [DNS_LABEL_NAME],
  columns: [
    { name: 'Writer', type: 'string', jsonPath: '.spec.writer' },
    { name: 'LowWater', type: 'string', jsonPath: '.spec.lowWater' },
    { name: 'Age', type: 'date', jsonPath: '.metadata.creationTimestamp' },
  ],
  selectable: [],
}
export const outcomeSegments = resourceType(outcomeSegmentKind)

/** The last second, in milliseconds since 1970, and its text up to the milliseconds. */
let second = Number.NaN
let beginning = ''

/**
 * `Date.toISOString` at a third of its cost while times are of one second, as they are in a segment that every replica reads. @param
 * ms milliseconds since 1970, whole, in the range of Date
 */
export function isoTime(ms: number): string {
  const start = Math.floor(ms / 1000) * 1000
  if (start !== second) {
    beginning = new Date(start).toISOString().slice(0, -4)
    second = start
  }
  return `${beginning}${String(ms - start).padStart(3, '0')}Z`
}

/**
 * A record of a delivery's outcome. As text: position, kind, and the facts as JSON.
 *
 *   sent      an attempt from the log got a 2xx response; with `object`, its WebhookDelivery still has to be written
 *   failed    an attempt from the log failed; its WebhookDelivery has to be written
 *   creating  its WebhookDelivery is about to be created, though no attempt has had an outcome: from here on it may exist
 *   moved     the delivery is in a WebhookDelivery, whose status counts from here on; or it has ended and gets none
 *   canceled  it ended without an object
 *   begin     a careful owner is about to make an attempt; without a later record, that attempt may have ended the owner
 *   ended     its WebhookDelivery is final or deleted: nothing is pending any more
 *
 * A delivery with no record but `begin` and `creating` is attempted (again).
 *
 * Three kinds of record are about shards. `claim`: the writer owns them from there on, and later records of others about them are
 * void. It counts how many owners before it have ended in a row. `release`: the writer has released them, with nothing in progress.
 * `calm`: the writer has owned them for so long that the count starts again. Each names the version of this sequence up to which its
 * writer had read: if another replica had claimed the shard by then, the record came too late and is void.
 */
export type OutcomeRecord =
  | { kind: 'sent'; position: Position; attempt: DeliveryAttempt; object: boolean }
  | { kind: 'failed'; position: Position; attempt: DeliveryAttempt; nextAttemptAt: number }
  | { kind: 'creating' | 'moved' | 'ended'; position: Position }
  | { kind: 'canceled'; position: Position; reason: CancelReason }
  | BeginRecord

/** @property attempts made before @property isAlone no other attempt that may have ended an owner is made meanwhile */
export type BeginRecord = { kind: 'begin'; position: Position; attempts: number; isAlone: boolean }

/**
 * The writer takes over these shards. @property after the version of the log that it knew; absent: all before
 * @property ends owners that have ended in a row before it; absent: 0
 */
export type ClaimRecord = { kind: 'claim'; shards: readonly number[]; after?: number; ends?: number }

/** The writer has released these shards, or has ended a series of ends. @property after as of a claim */
export type ReleaseRecord = { kind: 'release' | 'calm'; shards: readonly number[]; after?: number }

export type LogRecord = OutcomeRecord | ClaimRecord | ReleaseRecord

/** Milliseconds since 1970, in the range of Date. */
const time = z.number().min(0).max(8.64e15)

/** Short names, since every delivery has a record. */
const attemptFacts = z.object({
  at: time,
  ms: z.int32().min(0),
  code: z.int32().optional(),
  error: z.string().optional(),
  response: z.string().optional(),
  object: z.literal(1).optional(),
  next: time.optional(),
})
const cancelFacts = z.object({ reason: cancelReason })
const beginFacts = z.object({ n: z.int32().min(0), alone: z.literal(1).optional() })

/**
 * The form of nearly every line: a first attempt with a 2xx response. Each replica reads all of them, and parsing their facts as JSON
 * would more than double the cost. A substring of a line keeps the whole segment in memory unless it is shorter than 13 characters.
 */
const PLAIN_SENT =
  /^(\d{1,15})\/(\d{1,6}) sent \{"at":(0|[1-9]\d{0,14}),"ms":(0|[1-9]\d{0,8})(?:,"code":([1-9]\d{0,8}))?(?:,"response":"([ !#-[\]-~]{0,12})")?(?:,"object":(1))?\}$/

const SHARD_RECORD =
  /^(claim|release|calm) (\d{1,3}(?:,\d{1,3}){0,255})(?: after (\d{1,15}))?(?: ends (\d{1,6}))?$/

export function isShardRecord(record: LogRecord): record is ClaimRecord | ReleaseRecord {
  return record.kind === 'claim' || record.kind === 'release' || record.kind === 'calm'
}

/** The same of an encoded record. */
export function isShardLine(line: string): boolean {
  return line.startsWith('claim ') || line.startsWith('release ') || line.startsWith('calm ')
}

export function encodeLogRecord(record: LogRecord): string {
  if (isShardRecord(record)) return encodeShardRecord(record)
  const prefix = `${formatPosition(record.position)} ${record.kind}`
  switch (record.kind) {
    case 'creating':
    case 'moved':
    case 'ended':
      return prefix
    case 'begin':
      return `${prefix} ${JSON.stringify({ n: record.attempts, ...(record.isAlone ? { alone: 1 } : {}) })}`
    case 'canceled':
      return `${prefix} ${JSON.stringify({ reason: record.reason })}`
    case 'sent':
      return `${prefix} ${JSON.stringify({ ...factsOf(record.attempt), ...(record.object ? { object: 1 } : {}) })}`
    case 'failed':
      return `${prefix} ${JSON.stringify({ ...factsOf(record.attempt), next: record.nextAttemptAt })}`
  }
}

function encodeShardRecord(record: ClaimRecord | ReleaseRecord): string {
  const { kind, shards, after } = record
  const ends = record.kind === 'claim' && record.ends ? ` ends ${record.ends}` : ''
  return `${kind} ${shards.join()}${after === undefined ? '' : ` after ${after}`}${ends}`
}

/** The records about deliveries, in order, without those that this version does not know. */
export function decodeOutcomeRecords(spec: { records: string }): OutcomeRecord[] {
  return spec.records.split('\n').flatMap((line) => decodeOutcomeRecord(line) ?? [])
}

/** All records, in order. `unreadable`: lines that this version does not know. */
export function decodeLogRecords(spec: { records: string }): { records: LogRecord[]; unreadable: number } {
  const lines = spec.records.split('\n')
  const records: LogRecord[] = []
  for (const line of lines) {
    const record = decodeOutcomeRecord(line) ?? decodeShardRecord(line)
    if (record) records.push(record)
  }
  return { records, unreadable: lines.length - records.length }
}

function decodeShardRecord(line: string): ClaimRecord | ReleaseRecord | undefined {
  const [, kind, list, after, ends] = SHARD_RECORD.exec(line) ?? []
  if (list === undefined) return undefined
  const shards = list.split(',').map(Number)
  const known = after === undefined ? {} : { after: Number(after) }
  if (kind === 'claim')
    return { kind, shards, ...known, ...(ends === undefined ? {} : { ends: Number(ends) }) }
  return ends === undefined ? { kind: kind === 'calm' ? 'calm' : 'release', shards, ...known } : undefined
}

/** Undefined for a record that this version does not know. */
export function decodeOutcomeRecord(text: string): OutcomeRecord | undefined {
  return decodePlainSent(text) ?? decodeAny(text)
}

function decodePlainSent(text: string): OutcomeRecord | undefined {
  const [, version, index, at, ms, code, response, object] = PLAIN_SENT.exec(text) ?? []
  if (version === undefined) return undefined
  const attempt: DeliveryAttempt = { at: isoTime(Number(at)), latencyMs: Number(ms) }
  if (code !== undefined) attempt.code = Number(code)
  if (response !== undefined) attempt.response = response
  const position = { version: Number(version), index: Number(index) }
  return { kind: 'sent', position, attempt, object: object !== undefined }
}

function decodeAny(text: string): OutcomeRecord | undefined {
  const [offset = '', kind = '', ...rest] = text.split(' ')
  const position = parsePosition(offset)
  if (!position) return undefined
  if (kind === 'creating' || kind === 'moved' || kind === 'ended') return { kind, position }
  const facts = jsonOrUndefined(rest.join(' '))
  if (kind === 'begin') {
    const { data } = beginFacts.safeParse(facts)
    return data && { kind, position, attempts: data.n, isAlone: data.alone === 1 }
  }
  if (kind === 'canceled') {
    const parsed = cancelFacts.safeParse(facts)
    return parsed.success ? { kind, position, reason: parsed.data.reason } : undefined
  }
  const parsed = attemptFacts.safeParse(facts)
  if (!parsed.success) return undefined
  const attempt = attemptOf(parsed.data)
  if (kind === 'sent') return { kind, position, attempt, object: parsed.data.object === 1 }
  if (kind === 'failed') return { kind, position, attempt, nextAttemptAt: parsed.data.next ?? parsed.data.at }
  return undefined
}

function factsOf(attempt: DeliveryAttempt) {
  const { at, latencyMs, ...rest } = attempt
  return { at: Date.parse(at), ms: latencyMs, ...rest }
}

function attemptOf(facts: z.infer<typeof attemptFacts>): DeliveryAttempt {
  return {
    at: new Date(facts.at).toISOString(),
    latencyMs: facts.ms,
    ...(facts.code === undefined ? {} : { code: facts.code }),
    ...(facts.error === undefined ? {} : { error: facts.error }),
    ...(facts.response === undefined ? {} : { response: facts.response }),
  }
}

function jsonOrUndefined(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
