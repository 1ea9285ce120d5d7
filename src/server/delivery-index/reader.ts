/**
 * Reads the log and the objects into lines, and keeps up with them. In this order, each list as a consistent read: what
 * an outcome speaks of was accepted before, and the object that it names was made before.
 */

import { outcomeSegments } from '../../apis/api-outcome-segment.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { Informer } from '../../kube/informer.ts'
import type { InformerDependencies } from '../../kube/reflector-options.ts'
import type { Watch } from '../../kube/watch.ts'
import { LARGEST_LOG_PAGE, LOG_PAGE } from '../../webhooks/log/log-pages.ts'
import { readLiveSegment } from '../../webhooks/log/reader.ts'
import type { LogSegment } from '../../webhooks/log/store.ts'
import { DeliveryLines } from './delivery-index-delivery-lines.ts'
import type { OutcomeBatch } from './delivery-lines.ts'
import { OutcomeStore } from './outcome-store.ts'
import { readObjectDelivery, readOutcomeBatch } from './read-sources.ts'
import { SegmentStore } from './segment-store.ts'
import type { ObjectDelivery } from './shown-lines.ts'
import { ObjectDeliveryStore } from './shown-store.ts'

export type IndexReadingOptions = {
  needs: InformerDependencies
  /** The operator's namespace. */
  namespace: string
  /** Lines that there may be. */
  capacity: number
  /** What was read does not hold any more, or something was missed: all of it has to be read again. */
  onLost: (why: string) => void
}

const OBJECT_PAGE = 1000
/** Objects are the largest of the lists that are compared. */
const COMPARE_EVERY_MS = 2 * 3600_000

const SET_BACK = 'the store of the cluster was set back to an older one'

type Stage = { words: string; reflector: Watch }

export class IndexReading {
  readonly lines: DeliveryLines
  /** All of it was read. */
  readonly ready: Promise<void>
  readonly #stages: readonly Stage[]
  readonly #stopping = Promise.withResolvers<void>()
  #markReady: () => void = () => undefined
  /** The stage that is read now; undefined when all were. */
  #stage: Stage | undefined
  #stopped = false

  constructor(options: IndexReadingOptions) {
    const lost = (why: string) => {
      if (!this.#stopped) options.onLost(why)
    }
    const onLost = () => lost('outcomes came faster than the segments that they speak of')
    this.lines = new DeliveryLines({ capacity: options.capacity, onLost })
    this.#stages = stagesOf(options, this.lines, () => lost(SET_BACK))
    this.#stage = this.#stages[0]
    this.ready = new Promise((resolve) => {
      this.#markReady = resolve
    })
  }

  /** In words, while something is still to be read. */
  get progress(): string | undefined {
    return this.#stage && `reading ${this.#stage.words}: ${this.lines.size} lines so far`
  }

  /** What was accepted of late may not have been seen: the watch of the log was lost, and is not open again. */
  get isCutOff(): boolean {
    const [log] = this.#stages
    return log !== undefined && log.reflector.health.disconnectedForMs() > 0
  }

  start(): this {
    void this.#read()
    return this
  }

  /** The watches may be dead without knowing it. */
  reopen(): void {
    for (const { reflector } of this.#stages) reflector.reopen()
  }

  /** Resolves when nothing changes the lines any more. */
  async stop(): Promise<void> {
    this.#stopped = true
    this.#stopping.resolve()
    await Promise.all(this.#stages.map(({ reflector }) => reflector.stop()))
  }

  async #read(): Promise<void> {
    for (const stage of this.#stages) {
      this.#stage = stage
      stage.reflector.start()
      await Promise.race([stage.reflector.synced, this.#stopping.promise])
      if (this.#stopped) return
    }
    this.#stage = undefined
    this.#markReady()
  }
}

function stagesOf(
  { needs, namespace }: IndexReadingOptions,
  lines: DeliveryLines,
  onSetBack: () => void,
): readonly Stage[] {
  const handler = { applied: () => undefined }
  const query = { namespace, limit: LOG_PAGE }
  const segments = new Informer<LogSegment>(
    {
      type: deliverySegments,
      query,
      largestPage: LARGEST_LOG_PAGE,
      decode: readLiveSegment,
      handler,
      streaming: true,
      store: new SegmentStore(lines, onSetBack),
    },
    needs,
  )
  const outcomes = new Informer<OutcomeBatch>(
    {
      type: outcomeSegments,
      query,
      largestPage: LARGEST_LOG_PAGE,
      decode: readOutcomeBatch,
      handler,
      streaming: true,
      store: new OutcomeStore(lines, onSetBack),
    },
    needs,
  )
  const objects = new Informer<ObjectDelivery>(
    {
      type: webhookDeliveries,
      query: { limit: OBJECT_PAGE },
      decode: readObjectDelivery,
      handler,
      compareEveryMs: COMPARE_EVERY_MS,
      store: new ObjectDeliveryStore(lines, onSetBack),
    },
    needs,
  )
  return [
    { words: 'the events of the delivery log', reflector: segments },
    { words: 'the outcomes of the delivery log', reflector: outcomes },
    { words: 'the deliveries that have objects', reflector: objects },
  ]
}
