/**
 * The list of parameters that Davit could not remove and no resource refers to any more. It is a ConfigMap in the operator's namespace, so
 * that they are known when everything else about them is gone.
 */
import { createHash } from 'node:crypto'
import { configMap, configMaps } from '../../apis/core-kinds.ts'
import { type FailedDeletionRecord, failedDeletionRecord } from '../../apis/registry-credential.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { sameJson } from '../../kube/status.ts'
import { Fifo } from '../../lib/fair-queue.ts'
import { tryParseJson } from '../../lib/json.ts'
import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'
import { withPeriod } from '../../lib/text.ts'
import type { Clock } from '../../lib/time.ts'

export const FAILED_DELETIONS_NAME = 'davit-orphaned-parameters'

export type FailedDeletionsOptions = {
  resources: ResourceReader & ResourceWriter
  namespace: string
  events: EventRecorder
  metrics: Pick<CredentialMetrics, 'parameterRemoved'>
  clock: Clock
  log: Logger
}

/** An object may have 1 MiB; a record takes some 500 bytes. */
const MAX_RECORDS = 1000
const MAX_BYTES = 900_000
const MAX_REASON = 300
/** Conflicts are rare: few processes write it, and seldom. */
const MAX_ATTEMPTS = 8
/** Errors that a retry does not help, while the deletion that waits for the record holds up a namespace. */
const REFUSALS = ['Forbidden', 'Invalid', 'TooLarge', 'Quota', 'Terminating', 'BadRequest'] as const

type Records = Map<string, FailedDeletionRecord>
type Ledger = {
  version: string | undefined
  /** The entries as they were read. */
  found: Readonly<Record<string, string>>
  records: Records
  /** Unreadable entries, of another version of Davit or of another writer. They stay while there is space. */
  others: Map<string, string>
}

/** @returns whether anything has changed */
type Change = (records: Records) => boolean
type Waiting = { change: Change; resolve: () => void; reject: (error: unknown) => void }

export class FailedDeletions {
  readonly #options: FailedDeletionsOptions
  /** As last read or written. */
  #size = 0
  #waiting: Waiting[] = []
  #isWriting = false

  constructor(options: FailedDeletionsOptions) {
    this.#options = options
  }

  get size(): number {
    return this.#size
  }

  /**
   * Resolves once it is durable; if the API server rejects the list itself, once it is logged.
   * @throws ApiError that may be transient
   */
  async add(found: Omit<FailedDeletionRecord, 'recordedAt'>): Promise<void> {
    const recordedAt = new Date(this.#options.clock.now()).toISOString()
    const record = { ...found, reason: found.reason.slice(0, MAX_REASON), recordedAt }
    try {
      await this.#change((records) => put(records, record))
    } catch (error) {
      if (!isApiError(error, ...REFUSALS)) throw error
      const line = 'failed to record orphaned parameter; it appears only in this log line'
      this.#options.log.error('orphan_record_failed', line, { ...record, error })
    }
    this.#recordEvent(record)
  }

  /** For a parameter that is gone, or that a resource refers to again. @throws ApiError */
  async remove(found: Pick<FailedDeletionRecord, 'name' | 'account' | 'region'>): Promise<void> {
    await this.#change((records) => records.delete(keyOf(found)))
  }

  /** Oldest first. @throws ApiError */
  async list(): Promise<FailedDeletionRecord[]> {
    const { records } = await this.#read()
    return [...records.values()].sort(byAge)
  }

  /** Of the organization that has the most, so that the records of one organization do not push out those of others. */
  #dropExcess({ records, others }: Ledger): void {
    const { log, metrics } = this.#options
    const size = () => [...entriesOf(records), ...others].reduce((sum, entry) => sum + bytesOf(entry), 0)
    let bytes = size()
    if (bytes > MAX_BYTES && others.size > 0) {
      log.error(
        'orphan_unreadable_removed',
        'orphaned parameter list is full; removed its unreadable entries',
      )
      others.clear()
      bytes = size()
    }
    if (records.size <= MAX_RECORDS && bytes <= MAX_BYTES) return
    const shares = sharesOf(records)
    while (records.size > MAX_RECORDS || bytes > MAX_BYTES) {
      const dropped = oldestOfLargest(shares, records.size > MAX_RECORDS ? 'count' : 'bytes')
      if (!dropped) return
      records.delete(dropped.key)
      bytes -= dropped.bytes
      metrics.parameterRemoved('forgotten')
      log.error(
        'orphan_record_dropped',
        'orphaned parameter list is full; the oldest entry of the organization with the most appears only in this log line',
        { ...dropped.record },
      )
    }
  }

  /** Changes that come during a write share the next one. */
  #change(change: Change): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ change, resolve, reject })
      if (!this.#isWriting) void this.#writeWaiting()
    })
  }

  async #writeWaiting(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#changeAll(batch.map(({ change }) => change))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isWriting = false
  }

  async #changeAll(changes: readonly Change[]): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const ledger = await this.#read()
      const isChanged = changes.map((change) => change(ledger.records)).includes(true)
      if (!isChanged) return
      this.#dropExcess(ledger)
      try {
        await this.#write(ledger)
        this.#size = ledger.records.size
        return
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'AlreadyExists', 'NotFound') || attempt === MAX_ATTEMPTS)
          throw error
      }
    }
  }

  async #read(): Promise<Ledger> {
    const { namespace, resources } = this.#options
    const raw = await findObject(resources, configMaps, { namespace, name: FAILED_DELETIONS_NAME })
    const ledger = { version: undefined, found: {}, records: new Map(), others: new Map() }
    if (!raw) return ledger
    const { data: found = {}, metadata } = configMap.parse(raw)
    const { records, others }: Ledger = ledger
    for (const [key, text] of Object.entries(found)) {
      const record = failedDeletionRecord.safeParse(tryParseJson(text)).data
      // Under its own key, so that it can be removed.
      if (record) records.set(keyOf(record), record)
      else others.set(key, text)
    }
    this.#size = records.size
    return { version: metadata.resourceVersion, found, records, others }
  }

  async #write({ version, found, records, others }: Ledger): Promise<void> {
    const { namespace, resources } = this.#options
    const wanted = new Map([...entriesOf(records), ...others])
    if (version === undefined) {
      const metadata = { namespace, name: FAILED_DELETIONS_NAME }
      const data = Object.fromEntries(wanted)
      await resources.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data })
      return
    }
    // A merge patch removes only keys that it names.
    const gone = Object.keys(found).filter((key) => !wanted.has(key))
    const data = Object.fromEntries([
      ...[...wanted].filter(([key, text]) => found[key] !== text),
      ...gone.map((key) => [key, null]),
    ])
    const patch = { metadata: { resourceVersion: version }, data }
    await resources.patch(configMaps, { namespace, name: FAILED_DELETIONS_NAME }, patch)
  }

  #recordEvent({ name, account, region, reason }: FailedDeletionRecord): void {
    const { namespace, events } = this.#options
    const about = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace, name: FAILED_DELETIONS_NAME },
    }
    const message = `Davit failed to delete the parameter ${name} in account ${account}, region ${region}: ${withPeriod(reason)}`
    events.record(about, { type: 'Warning', reason: 'ParameterOrphaned', message })
  }
}

/** A record keeps the time at which it was first recorded. */
function put(records: Records, record: FailedDeletionRecord): boolean {
  const key = keyOf(record)
  const before = records.get(key)
  const wanted = before ? { ...record, recordedAt: before.recordedAt } : record
  if (before && sameJson(before, wanted)) return false
  records.set(key, wanted)
  return true
}

type Held = { key: string; record: FailedDeletionRecord; bytes: number }
/** What one organization has in the list, oldest first. */
type Share = { held: Fifo<Held>; oldest: string; count: number; bytes: number }

function sharesOf(records: Records): Share[] {
  const shares = new Map<string, Share>()
  for (const [key, record] of [...records].sort(([, a], [, b]) => byAge(a, b))) {
    // By name: an organization that is recreated again and again is one.
    const { organization, recordedAt: oldest } = record
    const share = shares.get(organization) ?? { held: new Fifo(), oldest, count: 0, bytes: 0 }
    const bytes = bytesOf([key, JSON.stringify(record)])
    share.held.push({ key, record, bytes })
    share.count += 1
    share.bytes += bytes
    shares.set(organization, share)
  }
  return [...shares.values()]
}

/** Takes it out of the shares. Of organizations that have as many, the one with the oldest record. */
function oldestOfLargest(shares: readonly Share[], by: 'count' | 'bytes'): Held | undefined {
  const largest = shares.reduce<Share | undefined>((most, share) => {
    const more = share[by] - (most?.[by] ?? 0)
    return more > 0 || (more === 0 && most && share.oldest < most.oldest) ? share : most
  }, undefined)
  const dropped = largest?.held.shift()
  if (!largest || !dropped) return undefined
  largest.count -= 1
  largest.bytes -= dropped.bytes
  return dropped
}

function byAge(a: FailedDeletionRecord, b: FailedDeletionRecord): number {
  return a.recordedAt.localeCompare(b.recordedAt)
}

function entriesOf(records: Records): [string, string][] {
  return [...records].map(([key, record]) => [key, JSON.stringify(record)])
}

function bytesOf([key, text]: readonly [string, string]): number {
  return key.length + Buffer.byteLength(text)
}

export function keyOf({
  name,
  account,
  region,
}: Pick<FailedDeletionRecord, 'name' | 'account' | 'region'>): string {
  return createHash('sha256').update(`${account} ${region} ${name}`).digest('hex').slice(0, 40)
}
