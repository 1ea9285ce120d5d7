import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { fc } from '../../../test/support/fast-check.ts'
import type { LogRecord, OutcomeRecord } from '../../apis/outcome-segment.ts'
import type { WebhookEndpoint, WebhookEndpointSpec } from '../../apis/webhook-endpoint.ts'
import { SHARD_COUNT } from '../../ha/assignment.ts'
import type { LogSegment } from '../log/store.ts'

const SECOND = 1000
const ALL = new Set(Array.from({ length: SHARD_COUNT }, (_, shard) => shard))
const ATTEMPT = { at: '2026-01-31T12:00:00.000Z', latencyMs: 1, code: 200 }

/** A replica that drives nothing; of each of its endpoints a delivery has been there before. */
async function beside(specs: Record<string, Partial<WebhookEndpointSpec>>) {
  const bed = new EngineBed()
  bed.owns = () => false
  bed.start()
  const endpoints: WebhookEndpoint[] = []
  for (const [name, spec] of Object.entries(specs)) endpoints.push(await bed.endpoint(name, spec))
  let version = 0
  const another = (...records: LogRecord[]) => {
    version = Math.max(version + 0.001, bed.store.version)
    bed.follower.applyOutcomes({ version, writer: 'another', records })
  }
  const first = await show(bed, endpoints)
  another(...endpoints.map((_, index) => sent(first, index)))
  return { bed, endpoints, another, membersOf: (at: number) => membersOf(bed, endpoints[at]) }
}

/** Takes the next version of the store besides, in which others have their say. */
async function show(
  bed: EngineBed,
  endpoints: readonly WebhookEndpoint[],
  event = bed.event(endpoints),
): Promise<LogSegment> {
  const segment = await bed.append(event)
  bed.follower.addSegment(segment)
  await bed.append(bed.event([]))
  return segment
}

function sent({ version }: LogSegment, index: number): OutcomeRecord {
  return { kind: 'sent', position: { version, index }, attempt: ATTEMPT, object: false }
}

function membersOf(bed: EngineBed, endpoint: WebhookEndpoint | undefined): number {
  return [...(bed.engine.queues.get(endpoint?.metadata.uid ?? '')?.members() ?? [])].length
}

describe('an entry that another replica drives', () => {
  it('is counted, and has no place in its lane while it is new', async () => {
    const { bed, endpoints, another, membersOf } = await beside({ one: {} })
    const segment = await show(bed, endpoints)
    expect([bed.engine.counters.total, bed.engine.counters.ofOrganization(ORGANIZATION).pending]).toEqual([
      1, 1,
    ])
    expect(membersOf(0)).toBe(0)
    another(sent(segment, 0))
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([0, 0])
  })

  it('is in its lane when it has stayed for two seconds', async () => {
    const { bed, endpoints, another, membersOf } = await beside({ one: {} })
    const segment = await show(bed, endpoints)
    await bed.elapse(3 * SECOND)
    expect([membersOf(0), bed.engine.counters.total]).toEqual([1, 1])
    another(sent(segment, 0))
    expect([membersOf(0), bed.engine.counters.total]).toEqual([0, 0])
  })

  it('is pending until its object has ended where another replica has made one', async () => {
    const { bed, endpoints, another, membersOf } = await beside({ one: {} })
    const { version } = await show(bed, endpoints)
    another({ kind: 'moved', position: { version, index: 0 } })
    expect([membersOf(0), bed.engine.counters.total, bed.segments.size]).toEqual([1, 1, 0])
    another({ kind: 'ended', position: { version, index: 0 } })
    expect([membersOf(0), bed.engine.counters.total]).toEqual([0, 0])
  })

  it('is held at once where its endpoint is disabled, and soon where that is disabled meanwhile', async () => {
    const { bed, endpoints } = await beside({ one: { state: 'disabled' }, two: {} })
    await show(bed, endpoints)
    expect(bed.engine.counters.ofOrganization(ORGANIZATION)).toMatchObject({ pending: 1, held: 1 })
    for (const endpoint of endpoints) await bed.change(endpoint, { state: 'disabled' })
    await bed.elapse(3 * SECOND)
    expect(bed.engine.counters.ofOrganization(ORGANIZATION)).toEqual({ pending: 0, held: 2 })
  })

  it('stays counted where its endpoint goes, and is in a lane that somebody finds', async () => {
    const { bed, endpoints, membersOf } = await beside({ one: {} })
    await show(bed, endpoints)
    for (const endpoint of endpoints) bed.directory.remove(endpoint)
    await bed.elapse(3 * SECOND)
    expect([membersOf(0), bed.engine.counters.total]).toEqual([1, 1])
  })

  it('is not counted for ever where this replica itself had closed it before its segment was shown, and let go of it', async () => {
    const { bed, endpoints } = await beside({ one: {} })
    const segment = await bed.append(bed.event(endpoints))
    const moved = { kind: 'moved', position: { version: segment.version, index: 0 } } as const
    bed.follower.applyOutcomes({ version: segment.version + 1, writer: bed.session, records: [moved] })
    bed.follower.addSegment(segment)
    expect([bed.engine.counters.total, bed.segments.size]).toEqual([0, 0])
  })

  it('is sent in its order where its shard is taken over meanwhile', async () => {
    const { bed, endpoints } = await beside({ one: { ordered: true }, two: {} })
    const events = [bed.event(endpoints), bed.event(endpoints), bed.event(endpoints)]
    const ids = await bed.accept(...events)
    for (const path of ['/one', '/two']) bed.sender.answers.set(path, 200)
    bed.owns = () => true
    const taken = bed.takeOver.start(ALL, new AbortController().signal)
    await bed.elapse(SECOND)
    expect(await taken).toMatchObject({ resumed: 6 })
    bed.engine.wake(ALL)
    await bed.elapse(5 * SECOND)
    expect(bed.begun('one')).toEqual(ids)
    expect(bed.begun('two').toSorted()).toEqual(ids.toSorted())
    expect(bed.engine.counters.total).toBe(0)
  })
})

/** An entry, and what has been said of it; `owed`: it has ended, and its object is still to come. */
type Known = {
  event: string
  isTold: boolean
  version: number
  index: number
  is: 'open' | 'owed' | 'shown' | 'over'
}

const step = fc.oneof(
  fc.record({
    kind: fc.constant('show' as const),
    targets: fc.integer({ min: 1, max: 3 }),
    madeAs: fc.constantFrom('webhookEvent' as const, 'event' as const),
  }),
  fc.record({
    kind: fc.constant('say' as const),
    word: fc.constantFrom('sent', 'owed', 'moved', 'ended', 'failed', 'exhausted'),
    which: fc.nat(50),
  }),
  fc.record({ kind: fc.constant('wait' as const), seconds: fc.integer({ min: 1, max: 3 }) }),
  fc.record({
    kind: fc.constant('change' as const),
    state: fc.constantFrom('disabled' as const, 'enabled' as const),
    which: fc.nat(2),
  }),
)

/** What another replica says next; undefined where it has said all. */
function wordOf({ version, index, is }: Known, kind: string): [OutcomeRecord, Known['is']] | undefined {
  const position = { version, index }
  if (is === 'shown') return kind === 'ended' ? [{ kind, position }, 'over'] : undefined
  if (is === 'over' || kind === 'ended' || (is === 'owed' && kind !== 'moved')) return undefined
  if (kind === 'sent') return [{ kind, position, attempt: ATTEMPT, object: false }, 'over']
  if (kind === 'owed') return [{ kind: 'sent', position, attempt: ATTEMPT, object: true }, 'owed']
  if (kind === 'moved') return [{ kind, position }, is === 'owed' ? 'over' : 'shown']
  if (kind === 'exhausted') return [{ kind: 'failed', position, attempt: ATTEMPT, nextAttemptAt: 0 }, 'owed']
  return [{ kind: 'failed', position, attempt: ATTEMPT, nextAttemptAt: 1 }, 'open']
}

function isPending({ is }: Known): boolean {
  return is === 'open' || is === 'shown'
}

/** A replica beside what has been said to it. */
class Model {
  readonly #world: Awaited<ReturnType<typeof beside>>
  readonly #known: Known[] = []
  readonly #told: string[] = []

  constructor(world: Awaited<ReturnType<typeof beside>>) {
    this.#world = world
    const { counters } = world.bed.engine
    counters.onEventSeen = (name) => this.#told.push(`seen ${name}`)
    counters.onEventDone = (name) => this.#told.push(`done ${name}`)
  }

  async take(one: typeof step extends fc.Arbitrary<infer S> ? S : never): Promise<void> {
    const { bed, endpoints } = this.#world
    if (one.kind === 'show') {
      const targets = endpoints.slice(0, one.targets)
      this.#shown(await show(bed, targets, bed[one.madeAs](targets)))
    } else if (one.kind === 'wait') await bed.elapse(one.seconds * SECOND)
    else if (one.kind === 'change') {
      const endpoint = endpoints[one.which]
      if (endpoint) await bed.change(endpoint, { state: one.state })
    } else this.#say(one.word, one.which)
  }

  #shown({ version, deliveries }: LogSegment): void {
    for (const { index, event } of deliveries)
      this.#known.push({ event: event.id, isTold: event.key === event.id, version, index, is: 'open' })
  }

  #say(kind: string, which: number): void {
    const about = this.#known[which % Math.max(1, this.#known.length)]
    const word = about && wordOf(about, kind)
    if (!word) return
    this.#world.another(word[0])
    about.is = word[1]
  }

  get #toBeTold(): Known[] {
    return this.#known.filter(({ isTold }) => isTold)
  }

  #pendingOf(event: string): number {
    return this.#known.filter((one) => one.event === event && isPending(one)).length
  }

  expectCounts(): void {
    const { counters } = this.#world.bed.engine
    expect(counters.total).toBe(this.#known.filter(isPending).length)
    for (const { event } of this.#toBeTold) expect(counters.ofEvent(event)).toBe(this.#pendingOf(event))
  }

  expectTold(): void {
    const events = [...new Set(this.#toBeTold.map(({ event }) => event))]
    const done = events.filter((event) => this.#pendingOf(event) === 0)
    const expected = [...events.map((event) => `seen ${event}`), ...done.map((event) => `done ${event}`)]
    expect(this.#told.toSorted()).toEqual(expected.toSorted())
  }
}

it('whatever others say of their deliveries and when, those that have not ended are counted, and each event is told of once', async () => {
  const specs = { one: {}, two: {}, three: { state: 'disabled' as const } }
  await fc.assert(
    fc.asyncProperty(fc.array(step, { maxLength: 25 }), async (steps) => {
      const model = new Model(await beside(specs))
      for (const one of steps) {
        await model.take(one)
        model.expectCounts()
      }
      model.expectTold()
    }),
  )
})
