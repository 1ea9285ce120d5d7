import { expect, test } from 'vitest'
import { EngineBed, SYSTEM } from '../../../test/support/engine-bed.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { encodeLogRecord, outcomeSegments } from '../../apis/outcome-segment.ts'
import { deliveryOutline, type WebhookDeliveryStatus } from '../../apis/webhook-delivery.ts'

const SECOND = 1000
const ALL_SHARDS = new Set(Array.from({ length: 256 }, (_, shard) => shard))
const CRASHED = 'the Davit controller stopped during this attempt'

function statusOf(bed: EngineBed, endpoint: string): WebhookDeliveryStatus | undefined {
  const object = bed.objects.find(({ spec }) => (spec as { endpoint: string }).endpoint === endpoint)
  return object?.status as WebhookDeliveryStatus | undefined
}

function isSetAside(bed: EngineBed, endpoint: string): boolean {
  return statusOf(bed, endpoint)?.attempts?.some(({ error }) => error === CRASHED) === true
}

/** An owner of all shards before any end. */
async function firstOwner(bed = new EngineBed()): Promise<EngineBed> {
  const taken = bed.takeOver.start(ALL_SHARDS, new AbortController().signal)
  await bed.elapse(SECOND)
  await taken
  bed.engine.start()
  return bed
}

/** Four owners end; `poison` and `other` were begun by the last one. @param lived milliseconds that the last one lived */
async function twoSuspects(lived: number, failsBefore = false): Promise<EngineBed> {
  let bed = await firstOwner()
  const poison = await bed.endpoint('poison')
  const other = await bed.endpoint('other', {}, 'neighbor')
  if (failsBefore) {
    bed.sender.answers.set('/other', 500)
    await bed.accept(bed.event([other]))
    await bed.elapse(4 * SECOND)
  }
  // Entries come in the order of the log, and objects the newest first.
  const areObjects = lived > 2 * SECOND
  const next = failsBefore ? [poison] : areObjects ? [other, poison] : [poison, other]
  for (const endpoint of next) {
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(10)
  }
  for (const before of [SECOND, SECOND, SECOND, lived]) {
    await bed.elapse(before)
    bed = await bed.restarted()
  }
  return bed
}

/** Ends a process three seconds after it began to try `poison` alone, and one after it tried `other`. */
async function endedAfterBoth(bed: EngineBed): Promise<EngineBed> {
  await bed.elapse(8 * SECOND)
  expect(bed.sender.attempts.map(({ path }) => path)).toEqual(['/poison', '/other'])
  const next = await bed.restarted()
  await next.elapse(10 * SECOND)
  return next
}

test.each([
  { given: 'in the log, and it succeeds', lived: SECOND, code: 200 },
  { given: 'in the log, and it fails', lived: SECOND, code: 500 },
  { given: 'with an object, and it succeeds', lived: 4 * SECOND, code: 200 },
  { given: 'with an object, and it fails', lived: 4 * SECOND, code: 500 },
  { given: 'with an object, and it fails again', lived: 45 * SECOND, code: 500, failsBefore: true },
])(
  'a suspect that ends its owner late is set aside although another was begun after it: $given',
  async ({ lived, code, failsBefore }) => {
    const bed = await twoSuspects(lived, failsBefore)
    bed.sender.answers.set('/other', code)
    const next = await endedAfterBoth(bed)
    expect([isSetAside(next, 'poison'), isSetAside(next, 'other')]).toEqual([true, false])
    expect(next.begun('poison')).toEqual([])
  },
)

test('the last suspect without an outcome is set aside, and one before it is then tried until its attempt is over', async () => {
  const bed = await twoSuspects(SECOND)
  let next = await endedAfterBoth(bed)
  expect([isSetAside(next, 'poison'), isSetAside(next, 'other')]).toEqual([false, true])
  expect(next.begun('poison')).toHaveLength(1)
  next = await next.restarted()
  await next.elapse(10 * SECOND)
  expect(isSetAside(next, 'poison')).toBe(true)
})

test.each([0, 1, 2, 4])(
  'a suspect of another replica hides none, with %d of its records',
  async (records) => {
    const bed = await twoSuspects(4 * SECOND)
    bed.sender.answers.set('/other', 500)
    await bed.elapse(8 * SECOND)
    const other = bed.objects.find(({ spec }) => (spec as { endpoint: string }).endpoint === 'other')
    const { version = 0, index = 0 } =
      [...bed.engine.objectBacked.values()].find(({ queue }) => queue.endpoint.name === 'other') ?? {}
    expect(deliveryOutline.parse(other).spec.position).toBe(`${version}/${index}`)
    for (let number = 0; number < records; number += 1) {
      const record = { kind: 'begin', position: { version, index }, attempts: 1, isAlone: true } as const
      const spec = { writtenAt: 0, writer: 'another', lowWater: '0', records: encodeLogRecord(record) }
      const name = `begin-${number}`
      await bed.store.create(outcomeSegments, { metadata: { namespace: SYSTEM, name }, spec })
    }
    const next = await bed.restarted()
    await next.elapse(10 * SECOND)
    expect(isSetAside(next, 'poison')).toBe(true)
  },
)

test.each([
  { given: 'fails', code: 500, want: true },
  { given: 'succeeds', code: 200, want: true },
  { given: 'is repeated after it failed', code: 500, failsBefore: true, want: true },
  { given: 'has no outcome', code: undefined, want: false },
])(
  'a replica that takes over only the shard of a suspect learns of one in another shard that $given',
  async ({ code, failsBefore, want }) => {
    const bed = await twoSuspects(failsBefore ? 45 * SECOND : 4 * SECOND, failsBefore)
    const third = new EngineBed(bed)
    const shardOfName = (name: string) =>
      [...bed.engine.queues.ours()].find(({ endpoint }) => endpoint.name === name)?.shard ?? -1
    const shards = { poison: shardOfName('poison'), other: shardOfName('other') }
    const own = [0, 1, 2].find((shard) => shard !== shards.poison && shard !== shards.other) ?? 0
    const take = async (shard: number) => {
      third.owns = (one) => one === own || one === shard
      third.showOutcomes()
      const started = third.takeOver.start(new Set([shard]), new AbortController().signal)
      await third.elapse(SECOND)
      await started
    }
    third.engine.start()
    await take(own)
    if (code !== undefined) bed.sender.answers.set('/other', code)
    await bed.elapse(8 * SECOND)
    expect(bed.sender.attempts.map(({ path }) => path)).toEqual(['/poison', '/other'])
    bed.sender.dead = true
    bed.api.bury()
    bed.giveUp.abort()
    await take(shards.poison)
    await third.elapse(SECOND)
    expect(isSetAside(third, 'poison')).toBe(want)
  },
)

/** Milliseconds from the start of an attempt to its answer; those that hang time out after 20 seconds. */
const TIMEOUT_MS = 20 * SECOND
const STEP_MS = 250

/** Answers of the receivers, as time passes. */
class Receivers {
  readonly #startedAt = new Map<object, number>()
  readonly #lives: ReadonlyMap<string, { code: number; afterMs: number }>

  constructor(others: readonly { code: number; afterMs: number }[]) {
    this.#lives = new Map(others.map((other, number) => [`/other-${number}`, other]))
  }

  answer(bed: EngineBed): void {
    const now = bed.clock.now()
    for (const attempt of bed.underWay) {
      const { code, afterMs } = this.#lives.get(attempt.path) ?? { code: 200, afterMs: TIMEOUT_MS }
      const startedAt = this.#startedAt.get(attempt) ?? now
      this.#startedAt.set(attempt, startedAt)
      if (now - startedAt < Math.min(afterMs, TIMEOUT_MS)) continue
      if (afterMs < TIMEOUT_MS) attempt.end(code)
      else attempt.end({ kind: 'failure', class: 'timeout', error: 'timed out', latencyMs: TIMEOUT_MS })
    }
  }
}

test('a deadly delivery is set aside after six ends at most, whatever others are suspicious', async () => {
  const other = fc.record({
    code: fc.constantFrom(200, 500),
    afterMs: fc.oneof(fc.nat({ max: 25 * SECOND }), fc.nat({ max: 3 * SECOND }), fc.constant(30 * SECOND)),
  })
  const before = fc.array(other, { maxLength: 4 })
  const after = fc.array(other, { maxLength: 4 })
  const deadlyAfter = fc.oneof(fc.nat({ max: 19 * SECOND }), fc.nat({ max: 3 * SECOND }))
  await fc.assert(
    fc.asyncProperty(before, after, deadlyAfter, async (before, after, deadlyMs) => {
      const receivers = new Receivers([...before, ...after])
      let bed = await firstOwner()
      const endpoints = []
      for (const number of [...before, ...after].keys()) endpoints.push(await bed.endpoint(`other-${number}`))
      const poison = await bed.endpoint('poison')
      for (const endpoint of endpoints.slice(0, before.length)) await bed.accept(bed.event([endpoint]))
      await bed.accept(bed.event([poison]))
      for (const endpoint of endpoints.slice(before.length)) await bed.accept(bed.event([endpoint]))
      const pass = async (isOver: () => boolean) => {
        for (let ms = 0; ms < 200 * SECOND && !isOver(); ms += STEP_MS) {
          await bed.elapse(STEP_MS)
          receivers.answer(bed)
        }
      }
      let ends = 0
      for (; ends <= 7 && !isSetAside(bed, 'poison'); ends += 1) {
        await pass(() => bed.begun('poison').length > 0 || isSetAside(bed, 'poison'))
        if (isSetAside(bed, 'poison')) break
        const endAt = bed.clock.now() + deadlyMs
        await pass(() => bed.clock.now() >= endAt)
        bed = await bed.restarted()
        await bed.elapse(SECOND)
      }
      expect(ends).toBeLessThanOrEqual(6)
    }),
    { numRuns: 20 },
  )
}, 120_000)
