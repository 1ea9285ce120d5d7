/**
 * Parameters that Davit could not remove and no resource speaks of any more: a ConfigMap in the operator's namespace, so that
 * they are known when everything else about them is gone.
 */

import { createHash } from 'node:crypto'
import { configMap, configMaps } from '../../apis/core-kinds.ts'
import { type FailedDeletionRecord, failedDeletionRecord } from '../../apis/registry-credential.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder } from '../../kube/recorder.ts'
import { sameJson } from '../../kube/status.ts'
import type { Clock } from '../../lib/clock.ts'
import type { Logger } from '../../lib/log.ts'
import type { CredentialMetrics } from '../../lib/metrics.ts'

export const FAILED_DELETIONS_NAME = 'davit-orphaned-parameters'

export type FailedDeletionsOptions = {
  resources: ResourceReader & ResourceWriter
  /** The operator's namespace. */
  namespace: string
  events: EventRecorder
  metrics: Pick<CredentialMetrics, 'parameterRemoved'>
  clock: Clock
  log: Logger
}

/** An object may have 1 MiB, and one of these takes some 500 bytes. */
const MAX_ORPHANS = 1000
const MAX_BYTES = 900_000
const MAX_REASON = 300
/** Several processes write it seldom. */
const MAX_ATTEMPTS = 8
/** Nothing is gained by trying again; and what waits for the record holds up a namespace. */
const REFUSALS = ['Forbidden', 'Invalid', 'TooLarge', 'Quota', 'Terminating', 'BadRequest'] as const

type Ledger = {
  version: string | undefined
  /** As it was read, line by line. */
  found: Readonly<Record<string, string>>
  orphans: Map<string, FailedDeletionRecord>
  /** Lines that cannot be read: of another version of Davit, or somebody's. They stay while there is room. */
  others: Map<string, string>
}

/** Whether anything has changed. */
type Act = (orphans: Map<string, FailedDeletionRecord>) => boolean
type Waiting = { act: Act; resolve: () => void; reject: (error: unknown) => void }

export class FailedDeletions {
  readonly #options: FailedDeletionsOptions
  /** As last read or written. */
  #size = 0
  #waiting: Waiting[] = []
  #isWriting = false

  constructor(options: FailedDeletionsOptions) {
    this.#options = options
  }

  /** For a metric. */
  get size(): number {
    return this.#size
  }

  /**
   * Resolves when it is durable; where the API server refuses the list itself, the log has it.
   * @throws ApiError that may pass
   */
  async add(found: Omit<FailedDeletionRecord, 'recordedAt'>): Promise<void> {
    const recordedAt = new Date(this.#options.clock.now()).toISOString()
    const record = { ...found, reason: found.reason.slice(0, MAX_REASON), recordedAt }
    try {
      await this.#change((orphans) => put(orphans, record))
    } catch (error) {
      if (!isApiError(error, ...REFUSALS)) throw error
      const line = 'The list of orphaned parameters could not be written; this one is in this line only'
      this.#options.log.error(line, { ...record, error })
    }
    this.#tell(record)
  }

  /** It is gone, or a resource speaks of it again. @throws ApiError */
  async remove(found: Pick<FailedDeletionRecord, 'name' | 'account' | 'region'>): Promise<void> {
    await this.#change((orphans) => orphans.delete(keyOf(found)))
  }

  /** Oldest first. @throws ApiError */
  async list(): Promise<FailedDeletionRecord[]> {
    const { orphans } = await this.#read()
    return [...orphans.values()].sort((a, b) => a.recordedAt.localeCompare(b.recordedAt))
  }

  #makeRoom({ orphans, others }: Ledger): void {
    const { log, metrics } = this.#options
    const size = () => [...textsOf(orphans), ...others].reduce((sum, line) => sum + bytesOf(line), 0)
    let bytes = size()
    if (bytes > MAX_BYTES && others.size > 0) {
      log.error('The list of orphaned parameters is full of lines that cannot be read; they were removed')
      others.clear()
      bytes = size()
    }
    const oldestFirst = [...orphans].sort(([, a], [, b]) => a.recordedAt.localeCompare(b.recordedAt))
    for (const [key, oldest] of oldestFirst) {
      if (orphans.size <= MAX_ORPHANS && bytes <= MAX_BYTES) return
      orphans.delete(key)
      bytes -= bytesOf([key, JSON.stringify(oldest)])
      metrics.parameterRemoved('forgotten')
      log.error('The list of orphaned parameters is full; the oldest is in this line only', { ...oldest })
    }
  }

  /** What comes while it is being written is written together. */
  #change(act: Act): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ act, resolve, reject })
      if (!this.#isWriting) void this.#writeWaiting()
    })
  }

  async #writeWaiting(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const batch = this.#waiting
      this.#waiting = []
      try {
        await this.#changeAll(batch.map(({ act }) => act))
        for (const { resolve } of batch) resolve()
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isWriting = false
  }

  async #changeAll(acts: readonly Act[]): Promise<void> {
    for (let attempt = 1; ; attempt += 1) {
      const ledger = await this.#read()
      const isChanged = acts.map((act) => act(ledger.orphans)).includes(true)
      if (!isChanged) return
      this.#makeRoom(ledger)
      try {
        await this.#write(ledger)
        this.#size = ledger.orphans.size
        return
      } catch (error) {
        if (!isApiError(error, 'Conflict', 'AlreadyExists', 'NotFound') || attempt === MAX_ATTEMPTS)
          throw error
      }
    }
  }

  async #read(): Promise<Ledger> {
    const { namespace, resources } = this.#options
    try {
      const found = configMap.parse(
        await resources.get(configMaps, { namespace, name: FAILED_DELETIONS_NAME }),
      )
      const lines = found.data ?? {}
      const orphans = new Map<string, FailedDeletionRecord>()
      const others = new Map<string, string>()
      for (const [key, text] of Object.entries(lines)) {
        const orphan = parseFailedDeletion(text)
        // Under its own key, so that it can be taken away.
        if (orphan) orphans.set(keyOf(orphan), orphan)
        else others.set(key, text)
      }
      this.#size = orphans.size
      return { version: found.metadata.resourceVersion, found: lines, orphans, others }
    } catch (error) {
      if (!isApiError(error, 'NotFound')) throw error
      return { version: undefined, found: {}, orphans: new Map(), others: new Map() }
    }
  }

  async #write({ version, found, orphans, others }: Ledger): Promise<void> {
    const { namespace, resources } = this.#options
    const wanted = new Map([...textsOf(orphans), ...others])
    if (version === undefined) {
      const metadata = { namespace, name: FAILED_DELETIONS_NAME }
      const data = Object.fromEntries(wanted)
      await resources.create(configMaps, { apiVersion: 'v1', kind: 'ConfigMap', metadata, data })
      return
    }
    // A merge patch forgets no key that it does not name.
    const gone = Object.keys(found).filter((key) => !wanted.has(key))
    const data = Object.fromEntries([
      ...[...wanted].filter(([key, text]) => found[key] !== text),
      ...gone.map((key) => [key, null]),
    ])
    const patch = { metadata: { resourceVersion: version }, data }
    await resources.patch(configMaps, { namespace, name: FAILED_DELETIONS_NAME }, patch)
  }

  #tell({ name, account, region, reason }: FailedDeletionRecord): void {
    const { namespace, events } = this.#options
    const about = {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace, name: FAILED_DELETIONS_NAME },
    }
    const message = `${name} in account ${account}, region ${region}, could not be removed: ${reason}`
    events.record(about, { type: 'Warning', reason: 'ParameterOrphaned', message })
  }
}

/** The first time that it was recorded stays. */
function put(orphans: Map<string, FailedDeletionRecord>, record: FailedDeletionRecord): boolean {
  const key = keyOf(record)
  const before = orphans.get(key)
  const wanted = before ? { ...record, recordedAt: before.recordedAt } : record
  if (before && sameJson(before, wanted)) return false
  orphans.set(key, wanted)
  return true
}

function textsOf(orphans: Map<string, FailedDeletionRecord>): [string, string][] {
  return [...orphans].map(([key, orphan]) => [key, JSON.stringify(orphan)])
}

function bytesOf([key, text]: readonly [string, string]): number {
  return key.length + Buffer.byteLength(text)
}

function keyOf({ name, account, region }: Pick<FailedDeletionRecord, 'name' | 'account' | 'region'>): string {
  return createHash('sha256').update(`${account} ${region} ${name}`).digest('hex').slice(0, 40)
}

/** Undefined where somebody wrote something else there. */
function parseFailedDeletion(text: string): FailedDeletionRecord | undefined {
  try {
    return failedDeletionRecord.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}
