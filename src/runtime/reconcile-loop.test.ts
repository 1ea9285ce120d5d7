import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import {
  after,
  done,
  ReconcileLoop,
  type ReconcileLoopOptions,
  type Result,
  TerminalError,
} from './reconcile-loop.ts'

type Pass = { key: string; signal: AbortSignal; end(result: Result): void; fail(error: unknown): void }

function start(options: Partial<ReconcileLoopOptions> = {}) {
  const clock = new FakeClock()
  const passes: Pass[] = []
  const outcomes: string[] = []
  const lines: string[] = []
  const say = (message: string) => void lines.push(message)
  const loop = new ReconcileLoop({
    name: 'test',
    reconciler: {
      reconcile: (key, signal) =>
        new Promise((resolve, reject) => passes.push({ key, signal, end: resolve, fail: reject })),
    },
    clock,
    random: fixedRandom(0),
    log: { info: say, warn: say, error: say },
    metrics: { reconciled: (_, result) => void outcomes.push(result), watchRestarted() {} },
    ...options,
  }).start()
  return { clock, loop, passes, outcomes, lines }
}

describe('a reconcile loop', () => {
  it('runs different keys side by side, as many as allowed', async () => {
    const { loop, passes } = start({ concurrency: 2 })
    for (const key of ['a', 'b', 'c']) loop.add(key)
    await settle()
    expect(passes.map((pass) => pass.key)).toEqual(['a', 'b'])
    expect(loop.depth).toBe(1)
    passes[1]?.end(done())
    await settle()
    expect(passes.map((pass) => pass.key)).toEqual(['a', 'b', 'c'])
  })

  it('looks again after the time that a pass asked for', async () => {
    const { clock, loop, passes, outcomes } = start()
    loop.add('a')
    await settle()
    passes[0]?.end(after(60_000))
    await clock.elapse(59_999)
    expect(passes).toHaveLength(1)
    await clock.elapse(1)
    expect(passes).toHaveLength(2)
    passes[1]?.end(done())
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
    expect(lines).toEqual(['A pass failed and will be repeated', 'A pass failed and will be repeated'])
  })

  it('does not repeat what cannot succeed until something changes', async () => {
    const { clock, loop, passes, outcomes } = start()
    loop.add('a')
    await settle()
    passes[0]?.fail(new TerminalError('the spec is wrong'))
    await clock.elapse(86_400_000)
    expect(passes).toHaveLength(1)
    loop.add('a')
    await settle()
    expect(passes).toHaveLength(2)
    expect(outcomes).toEqual(['terminal'])
  })

  it('tells a pass that takes too long to stop, and never runs the key beside it', async () => {
    const { clock, loop, passes } = start({ deadlineMs: 1_000 })
    loop.add('a')
    await clock.elapse(999)
    expect(passes[0]?.signal.aborted).toBe(false)
    await clock.elapse(1)
    expect(passes[0]?.signal.aborted).toBe(true)
    loop.add('a')
    await clock.elapse(1_000_000)
    expect(passes).toHaveLength(1)
    passes[0]?.end(done())
    await settle()
    expect(passes).toHaveLength(2)
    expect(passes[1]?.signal.aborted).toBe(false)
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
