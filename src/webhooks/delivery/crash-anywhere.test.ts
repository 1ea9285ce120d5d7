/**
 * The engine killed at each of its calls to the store, before and after the store acted on it, and started again:
 * the promises must hold wherever the crash comes.
 */

import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { calling, type Fault } from '../../../test/support/faulty-api.ts'
import {
  type AcceptedDelivery,
  type Evidence,
  judge,
  type Reception,
  violations,
} from '../../../test/support/verdict.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { webhookDeliveries, webhookDelivery } from '../../apis/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { ApiError } from '../../kube/client.ts'
import { readSegment } from '../log/reader.ts'
import { isFinal } from './plan.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE

/** The run ends at its `call`-th call, from 0. */
type Crash = { call: number; fault: Extract<Fault, string> }

/** How often an event is refused by each endpoint before it is taken; 8 is for ever. */
type Refusals = readonly number[]

const ENDPOINTS = [
  { name: 'ordered', ordered: true },
  { name: 'ordered-too', ordered: true },
  { name: 'one', ordered: false },
  { name: 'two', ordered: false },
] as const

class Story {
  readonly #refusals: Refusals
  readonly #dataText: string
  readonly #accepted: AcceptedDelivery[] = []
  readonly #receptions: Reception[] = []
  readonly #killed = new Set<number>()
  readonly #orders = new Map<string, number>()
  readonly #counts = new Map<string, number>()
  #run = 0
  /** Whether a quota rejects every object. */
  readonly #withoutObjects: boolean
  bed: EngineBed

  constructor(refusals: Refusals, { maxPayloadBytes, dataText = '1', withoutObjects = false }: StoryOptions) {
    this.#refusals = refusals
    this.#dataText = dataText
    this.#withoutObjects = withoutObjects
    this.bed = new EngineBed(undefined, 0, maxPayloadBytes)
  }

  /** @returns calls that the first run made, if it was not killed */
  async play(crashes: readonly Crash[]): Promise<number> {
    this.#begin(this.bed, crashes[0])
    const endpoints = []
    for (const { name, ...spec } of ENDPOINTS) endpoints.push(await this.bed.endpoint(name, spec))
    this.bed.start()
    for (let n = 0; n < this.#refusals.length; n += 1) {
      const event = this.bed.event(endpoints, `key-${n}`, this.#dataText)
      this.#orders.set(`msg_${event.event.id}`, n)
      for (const { name } of ENDPOINTS) this.#accepted.push({ endpoint: name, id: `msg_${event.event.id}` })
      const segment = await this.bed.append(event)
      if (!this.bed.api.dead) this.bed.follower.addSegment(segment)
      await this.bed.elapse(n % 2 === 0 ? 1 : 5)
    }
    await this.bed.elapse(2 * HOUR)
    const calls = this.bed.api.calls.length
    for (const crash of crashes.slice(1)) await this.#restart(crash)
    if (crashes.length > 0) await this.#restart()
    await this.bed.elapse(12 * HOUR)
    return calls
  }

  async #restart(crash?: Crash): Promise<void> {
    this.#killed.add(this.#run)
    this.bed = await this.bed.restarted((next) => this.#begin(next, crash))
    await this.bed.elapse(10 * MINUTE)
  }

  #begin(bed: EngineBed, crash?: Crash): void {
    this.#run += 1
    const run = this.#run
    bed.sender.latencyMs = 3
    for (const { name } of ENDPOINTS)
      bed.sender.answers.set(`/${name}`, (id) => this.#receive({ endpoint: name, id, run }))
    let count = 0
    if (crash) bed.api.fail(() => count++ === crash.call, crash.fault)
    const quota = new ApiError('Quota', 'exceeded quota')
    if (this.#withoutObjects) bed.api.fail(calling('create', webhookDeliveries), { before: quota }, 1_000_000)
  }

  #receive({ endpoint, id, run }: Omit<Reception, 'answer'>): number {
    const key = `${endpoint} ${id}`
    const count = this.#counts.get(key) ?? 0
    this.#counts.set(key, count + 1)
    const ok = count >= (this.#refusals[this.#orders.get(id) ?? 0] ?? 0)
    this.#receptions.push({ endpoint, id, run, answer: ok ? 'ok' : 'failed' })
    return ok ? 200 : 500
  }

  get evidence(): Evidence {
    return {
      accepted: this.#accepted,
      receptions: this.#receptions,
      orderedEndpoints: new Set(ENDPOINTS.filter(({ ordered }) => ordered).map(({ name }) => name)),
      killed: this.#killed,
      maxAttempts: 8,
    }
  }

  /** Deliveries with a failure in the log. One that was not recorded before a crash may be followed by a success that no view shows. */
  async #failed(): Promise<AcceptedDelivery[]> {
    const segments = this.bed.store.all(deliverySegments).map(readSegment)
    const records = await this.bed.records()
    return records
      .filter(({ kind }) => kind === 'failed')
      .flatMap(({ position }) => {
        const segment = segments.find(({ version }) => version === position.version)
        const entry = segment?.deliveries.find(({ index }) => index === position.index)
        return entry ? [{ endpoint: entry.endpoint.name, id: `msg_${entry.event.id}` }] : []
      })
  }

  /** What is wrong at the end, in words. */
  async complaints(): Promise<string[]> {
    const { bed } = this
    const exhausted = this.#refusals.filter((count) => count >= 8).length
    const unfinished = bed.objects.filter((raw) => !isFinal(webhookDelivery.parse(raw).status?.state))
    const shown = new Set(
      bed.objects.map(({ spec }) => keyOf(spec as { endpoint: string; deliveryId: string })),
    )
    const failed = this.#withoutObjects ? [] : await this.#failed()
    const hidden = failed.filter((one) => !shown.has(keyOf({ ...one, deliveryId: one.id })))
    const streaks = bed.store.all(webhookEndpoints).map((raw) => webhookEndpoint.parse(raw).status)
    const most = Math.max(0, ...streaks.map((status) => status?.consecutiveFailures ?? 0))
    return [
      ...violations(judge(this.evidence)),
      ...(bed.segments.size === 0 ? [] : [`${bed.segments.size} segments are open`]),
      ...(bed.engine.counters.total === 0 ? [] : [`${bed.engine.counters.total} deliveries are pending`]),
      ...(unfinished.length === 0 ? [] : [`${unfinished.length} objects are not finished`]),
      ...(hidden.length === 0 ? [] : [`${hidden.length} deliveries that failed at first have no object`]),
      ...(most <= exhausted ? [] : [`${most} of ${exhausted} exhausted deliveries were counted`]),
    ]
  }
}

function keyOf({ endpoint, deliveryId }: { endpoint: string; deliveryId: string }): string {
  return `${endpoint} ${deliveryId}`
}

const MIXED: Refusals = [0, 1, 0, 9, 0, 2]
/** Objects only name a body of this length. */
const LARGE = JSON.stringify('x'.repeat(17 * 1024))

type StoryOptions = {
  /** Of bodies in memory; 0 to read each again. */
  maxPayloadBytes?: number | undefined
  /** Of the events. */
  dataText?: string | undefined
  /** Whether a quota rejects every object. */
  withoutObjects?: boolean | undefined
}

async function complaintsOf(
  refusals: Refusals,
  crashes: readonly Crash[],
  options: StoryOptions = {},
): Promise<string[]> {
  const story = new Story(refusals, options)
  await story.play(crashes)
  return await story.complaints()
}

describe('without a crash', () => {
  it('everything is delivered, in order where asked, and shown', async () => {
    expect(await complaintsOf(MIXED, [])).toEqual([])
  })

  it('so it is if no body stays in memory', async () => {
    expect(await complaintsOf(MIXED, [], { maxPayloadBytes: 0 })).toEqual([])
  })

  it('so it is while a quota rejects every object, but nothing is shown', async () => {
    expect(await complaintsOf(MIXED, [], { withoutObjects: true })).toEqual([])
  })
})

const LIMIT_MS = 120_000

/** A run for each of its calls. @returns what was wrong, and where it was killed */
async function wrongAfterAnyCall(
  fault: Crash['fault'],
  refusals: Refusals,
  dataText?: string,
): Promise<string[]> {
  const calls = await new Story(refusals, { dataText }).play([])
  const wrong: string[] = []
  for (let call = 0; call < calls; call += 1) {
    const complaints = await complaintsOf(refusals, [{ call, fault }], { dataText })
    if (complaints.length > 0) wrong.push(`call ${call}: ${complaints.join('; ')}`)
  }
  return wrong
}

describe('killed once', { timeout: LIMIT_MS }, () => {
  it.each(['dies before', 'dies after'] as const)('%s any of its calls is done, it goes on', async (fault) =>
    expect(await wrongAfterAnyCall(fault, MIXED)).toEqual([]),
  )

  it.each(['dies before', 'dies after'] as const)(
    '%s any of its calls is done, it goes on where bodies stay in the log',
    async (fault) => expect(await wrongAfterAnyCall(fault, [0, 1], LARGE)).toEqual([]),
  )
})

describe('killed several times', { timeout: LIMIT_MS }, () => {
  it('it goes on, whenever that is', async () => {
    const crash = fc.record({
      call: fc.integer({ min: 0, max: 60 }),
      fault: fc.constantFrom('dies before' as const, 'dies after' as const),
    })
    await fc.assert(
      fc.asyncProperty(
        fc.array(fc.constantFrom(0, 0, 0, 1, 3, 9), { minLength: 1, maxLength: 8 }),
        fc.array(crash, { minLength: 1, maxLength: 4 }),
        fc.constantFrom(0, undefined),
        fc.boolean(),
        async (refusals, crashes, maxPayloadBytes, withoutObjects) => {
          expect(await complaintsOf(refusals, crashes, { maxPayloadBytes, withoutObjects })).toEqual([])
        },
      ),
      { numRuns: 60 },
    )
  })
})
