import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import { FairRateLimiter } from './rate-limit.ts'

const LIMITS = { perSecond: 10, burst: 3, maxWaiting: 10_000, maxWaitingOfFlow: 10_000 }
const FLOWS = ['a', 'b', 'c', 'd', 'e']

type Step =
  | { kind: 'take'; flow: string; count: number; isRetry: boolean }
  | { kind: 'cancel'; taker: number }
  | { kind: 'pass'; ms: number }
  | { kind: 'slow' }

const flow = fc.constantFrom(...FLOWS)
const count = fc.integer({ min: 1, max: 12 })
const stepWith = (isRetry: fc.Arbitrary<boolean>): fc.Arbitrary<Step> =>
  fc.oneof(
    fc.record({ kind: fc.constant('take' as const), flow, count, isRetry }),
    fc.record({ kind: fc.constant('cancel' as const), taker: fc.nat(100) }),
    fc.record({ kind: fc.constant('pass' as const), ms: fc.integer({ min: 0, max: 1500 }) }),
  )
const step = stepWith(fc.constant(false))
const stepWithComplaints = fc.oneof(
  { weight: 9, arbitrary: stepWith(fc.boolean()) },
  fc.record({ kind: fc.constant('slow' as const) }),
)

type Taker = {
  flow: string
  came: number
  /** How many had ended when this one came. */
  turnsBefore: number
  ended?: { at: number; how: 'served' | 'left' }
  leave(): void
}

type History = { takers: Taker[]; order: Taker[]; bucket: FairRateLimiter; clock: FakeClock }

async function play(steps: Step[]): Promise<History> {
  const clock = new FakeClock()
  const bucket = new FairRateLimiter(clock, LIMITS)
  const takers: Taker[] = []
  const order: Taker[] = []
  const come = (name: string, isRetry: boolean) => {
    const leaving = new AbortController()
    const came = { came: clock.monotonic(), turnsBefore: order.length }
    const taker: Taker = { flow: name, ...came, leave: () => leaving.abort() }
    takers.push(taker)
    const end = (how: 'served' | 'left') => {
      if (taker.ended) throw new Error('ended twice')
      taker.ended = { at: clock.monotonic(), how }
      order.push(taker)
    }
    void bucket.acquire(name, { signal: leaving.signal, isRetry: isRetry }).then(
      () => end('served'),
      () => end('left'),
    )
  }
  for (const one of steps) {
    if (one.kind === 'take') for (let i = 0; i < one.count; i += 1) come(one.flow, one.isRetry)
    if (one.kind === 'cancel') takers[one.taker % Math.max(1, takers.length)]?.leave()
    if (one.kind === 'slow') bucket.slowDown()
    await clock.elapse(one.kind === 'pass' ? one.ms : 0)
  }
  await clock.elapse(20 * 60_000)
  return { takers, order, bucket, clock }
}

const served = (takers: Taker[]) => takers.filter((taker) => taker.ended?.how === 'served')
const endOf = (taker: Taker) => taker.ended?.at ?? Number.POSITIVE_INFINITY

describe('FairBucket, whatever happens', () => {
  it('loses nobody, and is at rest in the end', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(stepWithComplaints, { maxLength: 30 }), async (steps) => {
        const { takers, bucket, clock } = await play(steps)
        expect(takers.filter((taker) => taker.ended === undefined)).toEqual([])
        expect([bucket.waiting, clock.pending]).toEqual([0, 0])
        expect(bucket.isIdle).toBe(true)
      }),
      { numRuns: 60 },
    )
  })

  it('never gives more than rate and burst allow, in any window', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(stepWithComplaints, { maxLength: 30 }), async (steps) => {
        const { takers } = await play(steps)
        const times = served(takers)
          .map(endOf)
          .sort((a, b) => a - b)
        for (const [i, from] of times.entries()) {
          for (const [j, to] of times.entries()) {
            if (j < i) continue
            const most = LIMITS.burst + ((to - from) / 1000) * LIMITS.perSecond
            expect(j - i + 1).toBeLessThanOrEqual(most + 1e-6)
          }
        }
      }),
      { numRuns: 60 },
    )
  })

  it('never serves one flow twice while another waits all the time', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(stepWithComplaints, { maxLength: 30 }), async (steps) => {
        const { order } = await play(steps)
        for (const [turn, taker] of order.entries()) {
          if (taker.ended?.how !== 'served') continue
          const meanwhile = order.slice(taker.turnsBefore, turn).filter((one) => one.ended?.how === 'served')
          const turnsOf = (name: string) => meanwhile.filter((one) => one.flow === name).length
          for (const other of FLOWS.filter((name) => name !== taker.flow)) {
            expect(turnsOf(other)).toBeLessThanOrEqual(turnsOf(taker.flow) + 1)
          }
        }
      }),
      { numRuns: 60 },
    )
  })

  it('makes no flow wait longer than its fair share, half as much again and one round', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { maxLength: 30 }), async (steps) => {
        const { takers } = await play(steps)
        const round = FLOWS.length * (1000 / LIMITS.perSecond)
        for (const taker of served(takers)) {
          const ahead = takers.filter(
            (one) => one.flow === taker.flow && one.came <= taker.came && endOf(one) > taker.came,
          )
          const share = ahead.length * round
          expect(endOf(taker) - taker.came).toBeLessThanOrEqual(share * 1.5 + round)
        }
      }),
      { numRuns: 60 },
    )
  })

  it('serves at the full rate while somebody waits, though others left', async () => {
    const takes = fc.array(fc.record({ flow, stays: fc.boolean() }), { minLength: 10, maxLength: 80 })
    await fc.assert(
      fc.asyncProperty(takes, async (all) => {
        const clock = new FakeClock()
        const bucket = new FairRateLimiter(clock, LIMITS)
        let turns = 0
        for (const { flow: name, stays } of all) {
          const leaving = new AbortController()
          void bucket.acquire(name, { signal: leaving.signal }).then(
            () => (turns += 1),
            () => undefined,
          )
          if (!stays) leaving.abort()
        }
        const stayed = all.filter(({ stays }) => stays).length
        await clock.elapse(2000)
        expect(turns).toBeGreaterThanOrEqual(Math.min(stayed, 19))
      }),
      { numRuns: 60 },
    )
  })
})
