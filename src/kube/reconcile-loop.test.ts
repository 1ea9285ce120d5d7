import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import { NO_RUNTIME_METRICS } from '../../test/support/no-metrics.ts'
import {
  noRequeue,
  ReconcileLoop,
  type ReconcileLoopOptions,
  type ReconcileResult,
  requeueAfter,
} from './reconcile-loop.ts'

type Pass = {
  key: string
  signal: AbortSignal
  end(result: ReconcileResult): void
  fail(error: unknown): void
}

function start(options: Partial<ReconcileLoopOptions> = {}) {
  const clock = new FakeClock()
  const passes: Pass[] = []
  const outcomes: string[] = []
  const lines: string[] = []
  const told: unknown[] = []
  const seconds: number[] = []
  const say = (_event: string, message: string, fields?: Record<string, unknown>) => {
    lines.push(message)
    told.push(fields)
  }
  const loop = new ReconcileLoop({
    name: 'test',
    reconciler: {
      reconcile: (key, signal) =>
        new Promise((resolve, reject) => passes.push({ key, signal, end: resolve, fail: reject })),
    },
    clock,
    random: fixedRandom(0),
    log: { info: say, warn: say, error: say },
    metrics: {
      ...NO_RUNTIME_METRICS,
      reconciled: (_, result, took) => {
        outcomes.push(result)
        seconds.push(took)
      },
    },
    ...options,
  }).start()
  return { clock, loop, passes, outcomes, lines, told, seconds }
}

describe('a reconcile loop', () => {
  it('runs different keys side by side, as many as allowed', async () => {
    const { loop, passes } = start({ concurrency: 2 })
    for (const key of ['a', 'b', 'c']) loop.add(key)
    await settle()
    expect(passes.map((pass) => pass.key)).toEqual(['a', 'b'])
    expect(loop.depth).toBe(1)
    passes[1]?.end(noRequeue())
    await settle()
    expect(passes.map((pass) => pass.key)).toEqual(['a', 'b', 'c'])
  })

  it('looks again after the time that a pass asked for', async () => {
    const { clock, loop, passes, outcomes } = start()
    loop.add('a')
    await settle()
    passes[0]?.end(requeueAfter(60_000))
    await clock.elapse(59_999)
    expect(passes).toHaveLength(1)
    await clock.elapse(1)
    expect(passes).toHaveLength(2)
    passes[1]?.end(noRequeue())
    await clock.elapse(86_400_000)
    expect(passes).toHaveLength(2)
    expect(outcomes).toEqual(['requeued', 'done'])
  })

  it('repeats a pass that failed, later each time, and logs it', async () => {
    const { clock, loop, passes, outcomes, lines } = start()
    loop.add('a')
    await settle()
    passes[0]?.fail(new Error('no'))
    await clock.elapse(3)
    passes[1]?.fail(new Error('no'))
    await clock.elapse(4)
    expect(passes).toHaveLength(2)
    await clock.elapse(1)
    expect(passes).toHaveLength(3)
    expect(outcomes).toEqual(['error', 'error'])
    expect(lines).toEqual(['reconciliation failed; retrying', 'reconciliation failed; retrying'])
  })

  it('says which pass failed, and why', async () => {
    const { loop, passes, told } = start()
    loop.add('a')
    await settle()
    const error = new Error('no')
    passes[0]?.fail(error)
    await settle()
    expect(told).toEqual([{ controller: 'test', key: 'a', error }])
  })

  it('repeats a pass that failed as soon as the first time once one of its key has succeeded', async () => {
    const { clock, loop, passes } = start()
    loop.add('a')
    await settle()
    passes[0]?.fail(new Error('no'))
    await clock.elapse(3)
    passes[1]?.end(noRequeue())
    await settle()
    loop.add('a')
    await settle()
    passes[2]?.fail(new Error('no'))
    await clock.elapse(3)
    expect(passes).toHaveLength(4)
  })

  it('tells how long a pass took', async () => {
    const { clock, loop, passes, seconds } = start()
    await clock.elapse(7000)
    loop.add('a')
    await clock.elapse(1500)
    passes[0]?.end(noRequeue())
    await settle()
    expect(seconds).toEqual([1.5])
  })

  it('does not repeat what cannot succeed until something changes', async () => {
    const { clock, loop, passes, outcomes } = start()
    loop.add('a')
    await settle()
    passes[0]?.end(noRequeue())
    await clock.elapse(86_400_000)
    expect(passes).toHaveLength(1)
    loop.add('a')
    await settle()
    expect(passes).toHaveLength(2)
    expect(outcomes).toEqual(['done'])
  })

  it('tells a pass that takes too long to stop, and never runs the key beside it', async () => {
    const { clock, loop, passes, lines, told } = start({ deadlineMs: 1_000 })
    loop.add('a')
    await clock.elapse(999)
    expect(passes[0]?.signal.aborted).toBe(false)
    await clock.elapse(1)
    expect(passes[0]?.signal.reason).toEqual(new Error('the reconciliation took longer than 1000 ms'))
    expect([lines, told]).toEqual([
      ['reconciliation took too long; aborting it'],
      [{ controller: 'test', key: 'a' }],
    ])
    loop.add('a')
    await clock.elapse(1_000_000)
    expect(passes).toHaveLength(1)
    passes[0]?.end(noRequeue())
    await settle()
    expect(passes).toHaveLength(2)
    expect(passes[1]?.signal.aborted).toBe(false)
  })

  it('has no deadline for what has ended, and tells it nothing more', async () => {
    const { clock, loop, passes, lines } = start()
    loop.add('a')
    await settle()
    passes[0]?.end(noRequeue())
    await settle()
    expect(clock.pending).toBe(0)
    await loop.stop()
    expect(passes[0]?.signal.aborted).toBe(false)
    expect(lines).toEqual([])
  })

  it('stops once the passes that run have been told to and have ended, and starts no other', async () => {
    const { loop, passes, lines } = start({ concurrency: 1 })
    loop.add('a')
    loop.add('b')
    await settle()
    let stopped = false
    const stopping = loop.stop().then(() => {
      stopped = true
    })
    await settle()
    expect(passes[0]?.signal.aborted).toBe(true)
    expect(stopped).toBe(false)
    passes[0]?.fail(passes[0].signal.reason)
    await stopping
    expect(passes).toHaveLength(1)
    expect(lines).toEqual([])
  })
})
