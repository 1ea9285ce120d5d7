import { describe, expect, it } from 'vitest'
import { DeliveryWatches, KINDS } from '../../../test/support/delivery-watches.ts'
import {
  DeliveryWorld,
  SCRIPTS,
  type WorldEndpoint,
  type WorldLine,
} from '../../../test/support/delivery-world.ts'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import type { DeliveryState } from '../../apis/webhook-delivery.ts'
import { MAX_ATTEMPTS } from '../../webhooks/delivery/retry-schedule.ts'
import type { Sequence } from '../../webhooks/log/log-store.ts'
import type { DeliveryLine } from '../delivery-resource.ts'
import { findEvent } from './event-queries.ts'
import { countEnded } from './line-table.ts'
import type { Lines } from './lines.ts'
import { type LogQuery, logPage, readDetail, segmentOfDelivery } from './queries.ts'

const ENDPOINTS = 3

const clock = new FakeClock()

const number = fc.nat({ max: 1000 })
const kind = fc.constantFrom(...KINDS)
const delivery = fc.record({ endpoint: number, script: number, older: fc.nat({ max: 20 }) })

/** What happens in the store, and what the watches tell of it. */
const happening = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      do: fc.constant('accept' as const),
      deliveries: fc.array(delivery, { minLength: 1, maxLength: 5 }),
      own: fc.boolean(),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ do: fc.constant('again' as const), which: number, own: fc.boolean() }),
  },
  { weight: 12, arbitrary: fc.record({ do: fc.constant('advance' as const), which: number }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('remove' as const), which: number }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('hand over' as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('write late' as const), which: number }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('repeat' as const), which: number }) },
  {
    weight: 8,
    arbitrary: fc.record({
      do: fc.constant('tell' as const),
      kind,
      count: fc.nat({ max: 6 }),
      twice: fc.boolean(),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('list' as const), kind, broken: fc.boolean() }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('compare' as const), which: number }) },
  {
    weight: 3,
    arbitrary: fc.record({ do: fc.constant('page' as const), limit: fc.integer({ min: 1, max: 4 }) }),
  },
)
/** Long ones: what goes wrong needs several things to go their way first. */
const happenings = (most: number) => fc.array(happening, { minLength: 10, maxLength: most })
type Happening = typeof happening extends fc.Arbitrary<infer T> ? T : never

class Run {
  readonly world: DeliveryWorld
  readonly watches: DeliveryWatches

  constructor(world = new DeliveryWorld(ENDPOINTS)) {
    this.world = world
    this.watches = new DeliveryWatches(world)
  }

  happen(what: Happening): void {
    if (what.do === 'accept') this.#append(this.world.accept(what.deliveries), what.own)
    else if (what.do === 'again') this.#append(this.world.acceptAgain(what.which), what.own)
    else if (what.do === 'advance') this.world.advance(what.which)
    else if (what.do === 'remove') this.world.removeSegment(what.which)
    else if (what.do === 'hand over') this.world.handOver()
    else if (what.do === 'write late') this.world.writeLate(what.which)
    else if (what.do === 'repeat') this.world.repeat(what.which)
    else if (what.do === 'tell') this.watches.tell(what.kind, what.count, what.twice)
    else if (what.do === 'list') this.watches.list(what.kind, what.broken)
    else if (what.do === 'compare') this.watches.compareObjects(() => this.world.advance(what.which))
  }

  /** What this process appends it shows before any watch does. */
  #append(segment: ReturnType<DeliveryWorld['acceptAgain']>, own: boolean): void {
    if (!segment || !own) return
    const place = { segment: segment.name, version: segment.version, firstDelivery: 0 }
    const events = segment.deliveries.map(({ event, endpoint }) => ({
      event: { ...event, payload: '{}' },
      targets: [endpoint],
    }))
    this.watches.index.appended(place, events)
  }

  static after(all: readonly Parameters<Run['happen']>[0][]): Run {
    const run = new Run()
    for (const what of all) run.happen(what)
    return run
  }

  /** As a process that starts now: everything is listed, and nothing was told before. */
  restart(): Run {
    const next = new Run(this.world)
    next.watches.readClaims()
    for (const kind of KINDS) next.watches.list(kind, false)
    return next
  }

  page(endpoint: WorldEndpoint, query: LogQuery) {
    return logPage(this.watches.index.lines, [endpoint], query)
  }

  /** As the API reads it: from the log, since it has no object. */
  async detail(endpoint: WorldEndpoint, deliveryId: string) {
    const read = async (_: Sequence, name: string) => this.world.storedOutcomes(name)
    const api = new MemoryStore(() => clock.now())
    return await readDetail(this.watches.index, { api, store: { read } }, endpoint, deliveryId)
  }

  async all(endpoint: WorldEndpoint, query: Partial<LogQuery> = {}): Promise<DeliveryLine[]> {
    const found: DeliveryLine[] = []
    let after: string | undefined
    do {
      const page = await this.page(endpoint, { limit: 3, ...query, after })
      found.push(...page.deliveries)
      after = page.next
    } while (after !== undefined)
    return found
  }
}

function idsOf(lines: readonly DeliveryLine[]): string[] {
  return lines.map(({ deliveryId }) => deliveryId)
}

function expectLines(found: readonly DeliveryLine[], wanted: readonly WorldLine[]): void {
  expect(
    found.map((line) => ({ id: line.deliveryId, state: line.status, attempts: line.attemptCount })),
  ).toEqual(wanted.map(({ id, state, attempts }) => ({ id: `msg_${id}`, state, attempts })))
  wanted.forEach(({ endedAt }, place) => {
    if (endedAt !== undefined) expect(Date.parse(found[place]?.completedAt ?? '')).toBe(endedAt)
  })
}

function isFailure(step: (typeof SCRIPTS)[number][number]): boolean {
  return 'record' in step && step.record === 'failed'
}

describe('the lines of the log', () => {
  it('show in the end what is stored, in whatever order the watches told of it, and so they do after a restart', async () => {
    await fc.assert(
      fc.asyncProperty(happenings(150), async (all) => {
        const run = Run.after(all)
        run.world.settleDuplicates()
        run.watches.tellAll()
        const next = run.restart()
        for (const endpoint of run.world.endpoints) {
          const wanted = run.world.linesOf(endpoint)
          expectLines(await run.all(endpoint), wanted)
          expectLines(await next.all(endpoint), wanted)
        }
        expect(run.watches.index.held).toBe(0)
        expect(openBytesOf(run.watches.index.lines)).toEqual(sumOfOpen(run.watches.index.lines))
        expect(run.watches.lost + run.watches.setBack).toBe(0)
      }),
      { numRuns: 300 },
    )
  })

  it('have each attempt once, of those that count, where the log alone tells of them', async () => {
    await fc.assert(
      fc.asyncProperty(happenings(150), async (all) => {
        const run = Run.after(all)
        run.world.settleDuplicates()
        run.watches.tellAll()
        for (const reader of [run, run.restart()]) {
          for (const endpoint of run.world.endpoints) {
            for (const { id, attemptTimes } of run.world.loggedOf(endpoint)) {
              const detail = await reader.detail(endpoint, `msg_${id}`)
              expect(detail?.attempts.map(({ at }) => at)).toEqual(attemptTimes)
            }
          }
        }
      }),
      { numRuns: 100 },
    )
  })

  it('have each attempt where most of their writes had no answer and were repeated', async () => {
    const run = new Run()
    const exhausted = SCRIPTS.findIndex((script) => script.filter(isFailure).length === MAX_ATTEMPTS)
    run.happen({ do: 'accept', deliveries: [{ endpoint: 0, script: exhausted, older: 0 }], own: false })
    for (let n = 0; n < MAX_ATTEMPTS; n += 1) run.happen({ do: 'advance', which: 0 })
    for (let n = 0; n < MAX_ATTEMPTS; n += 1)
      for (const which of [n, n, n]) run.happen({ do: 'repeat', which })
    run.watches.tellAll()
    const [endpoint] = run.world.endpoints
    if (!endpoint) throw new Error('there are endpoints')
    const [wanted] = run.world.loggedOf(endpoint)
    expect(wanted?.attemptTimes).toHaveLength(MAX_ATTEMPTS)
    for (const reader of [run, run.restart()]) {
      const detail = await reader.detail(endpoint, `msg_${wanted?.id}`)
      expect(detail?.attempts.map(({ at }) => at)).toEqual(wanted?.attemptTimes)
    }
  })

  it('lead to each event that the log has, also where its delivery is gone', async () => {
    await fc.assert(
      fc.property(happenings(150), (all) => {
        const run = Run.after(all)
        run.world.settleDuplicates()
        run.watches.tellAll()
        for (const { watches, world } of [run, run.restart()]) {
          for (const { endpoint, id } of world.eventsInLog()) {
            const { lines } = watches.index
            const segments = [
              findEvent(lines, endpoint.namespace, `msg_${id}`)?.segment,
              segmentOfDelivery(lines, endpoint, `msg_${id}`),
            ].map((name) => world.segments.get(name ?? ''))
            for (const segment of segments)
              expect(segment?.deliveries.map(({ event }) => event.id)).toContain(id)
          }
        }
      }),
      { numRuns: 100 },
    )
  })

  it('neither skip nor repeat on a walk through all pages what was there all along', async () => {
    await fc.assert(
      fc.asyncProperty(happenings(80), happenings(80), async (before, during) => {
        const run = new Run()
        const [endpoint] = run.world.endpoints
        if (!endpoint) return
        for (const what of before) run.happen(what)
        let always = new Set(idsOf(await run.all(endpoint)))
        const seen: string[] = []
        let after: string | undefined
        let ended = false
        for (const what of [
          ...during,
          ...Array.from({ length: 100 }, () => ({ do: 'page', limit: 4 }) as const),
        ]) {
          run.happen(what)
          always = always.intersection(new Set(idsOf(await run.all(endpoint))))
          if (what.do !== 'page' || ended) continue
          const page = await run.page(endpoint, { limit: what.limit, after })
          seen.push(...idsOf(page.deliveries))
          after = page.next
          ended = after === undefined
        }
        expect(ended).toBe(true)
        expect(new Set(seen).size).toBe(seen.length)
        expect(seen).toEqual(seen.toSorted())
        expect([...always.difference(new Set(seen))]).toEqual([])
      }),
      { numRuns: 150 },
    )
  })

  it('that a filter shows are those of all that fit it', async () => {
    const states: DeliveryState[] = ['pending', 'retrying', 'succeeded', 'exhausted', 'canceled']
    await fc.assert(
      fc.asyncProperty(happenings(100), async (all) => {
        const run = Run.after(all)
        for (const endpoint of run.world.endpoints) {
          const lines = await run.all(endpoint)
          for (const status of states) {
            const wanted = lines.filter((line) => line.status === status)
            expect(await run.all(endpoint, { status })).toEqual(wanted)
          }
          expect(await run.all(endpoint, { eventType: 'test.happened' })).toEqual(lines)
          expect(await run.all(endpoint, { eventType: 'test.other' })).toEqual([])
        }
      }),
      { numRuns: 50 },
    )
  })

  it('leave nothing behind of what is gone', async () => {
    await fc.assert(
      fc.property(happenings(150), (all) => {
        const run = Run.after(all)
        run.watches.tellAll()
        const { index } = run.watches
        for (const key of run.world.objects.keys()) index.objectGone(index.lineOfObject(key))
        for (const name of run.world.segments.keys()) index.segmentGone(name)
        expect([
          index.size,
          index.lines.logs.size,
          index.lines.segments.size,
          index.lines.outcomes.size,
        ]).toEqual([0, 0, 0, 0])
      }),
      { numRuns: 100 },
    )
  })
})

function openBytesOf({ bodies, logs }: Lines) {
  return { all: bodies.total, ofEndpoints: [...logs.values()].map(({ openBytes }) => openBytes) }
}

/** The same, line by line. All bodies have two bytes, and none is shared. */
function sumOfOpen({ logs }: Lines) {
  const ofEndpoints = [...logs.values()].map(({ lines, counts }) => 2 * (lines.size - countEnded(counts)))
  return { all: ofEndpoints.reduce((sum, bytes) => sum + bytes, 0), ofEndpoints }
}
