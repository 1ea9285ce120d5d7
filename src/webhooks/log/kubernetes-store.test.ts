import { describe, expect, it } from 'vitest'
import { FakeClock, fixedRandom } from '../../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { ApiError } from '../../kube/client.ts'
import { createIdempotently, type IdempotentCreateOptions } from './kubernetes-store.ts'

const OBJECT = { metadata: { namespace: 'davit-system' }, spec: { records: ['1/0 moved'] } }
const UNAVAILABLE = new ApiError('Unavailable', 'no answer')
const creating = calling('create', outcomeSegments)

function write(options: Partial<IdempotentCreateOptions> = {}) {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const api = new FaultyApi(store)
  let made = 0
  const make = async () => {
    made += 1
    return { ...OBJECT, metadata: { ...OBJECT.metadata, name: `name-${made}` } }
  }
  const run = () =>
    createIdempotently(api, outcomeSegments, make, { clock, random: fixedRandom(1), ...options })
  return { clock, store, api, run }
}

describe('writing once', () => {
  it('finds what it wrote when the answer was lost', async () => {
    const { clock, store, api, run } = write()
    api.fail(creating, { after: UNAVAILABLE })
    const written = run()
    await clock.elapse(1000)
    expect((await written).metadata.resourceVersion).toBe('101')
    expect(store.all(outcomeSegments)).toHaveLength(1)
  })

  it('goes on when what it wrote cannot be read at first', async () => {
    const { clock, api, run } = write()
    api.fail(creating, { after: UNAVAILABLE })
    api.fail(calling('get', outcomeSegments), { before: UNAVAILABLE }, 3)
    const written = run()
    await clock.elapse(10_000)
    expect((await written).metadata.resourceVersion).toBe('101')
  })

  it('tries as soon as it may, however long it might not, and not before', async () => {
    let may = false
    const { clock, api, run } = write({ mayTry: () => may })
    void run()
    await clock.elapse(30_000)
    expect(api.calls).toEqual([])
    may = true
    await clock.elapse(20)
    expect(api.calls).toHaveLength(1)
  })

  it('ends when it is given up while it may not try', async () => {
    const abort = new AbortController()
    const { api, run } = write({ mayTry: () => false, signal: abort.signal })
    api.fail(creating, { before: UNAVAILABLE })
    const written = run()
    abort.abort()
    await expect(written).rejects.toThrow('no answer')
  })

  it('writes under a newer name what was not written under the first one for long', async () => {
    const { clock, store, api, run } = write()
    const stop = api.fail(creating, { before: UNAVAILABLE }, Number.MAX_SAFE_INTEGER)
    const written = run()
    await clock.elapse(60_000)
    stop()
    await clock.elapse(10_000)
    await written
    expect(store.all(outcomeSegments)).toMatchObject([{ metadata: { name: 'name-3' } }])
  })

  it('finds late what it had written, and writes it under no other name', async () => {
    const { clock, store, api, run } = write()
    api.fail(creating, { after: UNAVAILABLE })
    const stop = api.fail(() => true, { before: UNAVAILABLE }, Number.MAX_SAFE_INTEGER)
    const written = run()
    await clock.elapse(60_000)
    stop()
    await clock.elapse(10_000)
    expect((await written).metadata.name).toBe('name-1')
    expect(store.all(outcomeSegments)).toHaveLength(1)
  })

  it('waits longer from try to try, and for as long as the server asks', async () => {
    const { clock, api, run } = write()
    api.fail(creating, { before: UNAVAILABLE }, 3)
    api.fail(creating, { before: new ApiError('TooManyRequests', 'later', { retryAfterMs: 3000 }) })
    const written = run()
    const tries: number[] = []
    for (let ms = 0; ms <= 3400; ms += 50) {
      await clock.elapse(ms === 0 ? 0 : 50)
      while (tries.length < api.calls.length) tries.push(ms)
    }
    expect(tries).toEqual([0, 50, 150, 350, 3350])
    await written
  })

  it('never gives up without a deadline, whatever the server says', async () => {
    const { clock, api, run } = write()
    const full = new ApiError('NoSpace', 'etcdserver: mvcc: database space exceeded')
    const stop = api.fail(creating, { before: full }, Number.MAX_SAFE_INTEGER)
    const written = run()
    await clock.elapse(60 * 60_000)
    stop()
    await clock.elapse(5000)
    expect((await written).metadata.resourceVersion).toBe('101')
  })

  it('gives up at its deadline', async () => {
    const { clock, api, run } = write({ deadlineMs: 10_000 })
    api.fail(creating, { before: UNAVAILABLE }, Number.MAX_SAFE_INTEGER)
    const failed = expect(run()).rejects.toBe(UNAVAILABLE)
    await clock.elapse(10_000)
    await failed
  })

  it.each(['Forbidden', 'Invalid', 'NoSpace', 'Terminating', 'Quota'] as const)(
    'does not repeat what is %s when there is a deadline',
    async (kind) => {
      const { api, run } = write({ deadlineMs: 10_000 })
      const error = new ApiError(kind, 'no')
      api.fail(creating, { before: error })
      await expect(run()).rejects.toBe(error)
      expect(api.calls).toHaveLength(1)
    },
  )

  it('ends with the process', async () => {
    const ending = new AbortController()
    const { clock, api, run } = write({ signal: ending.signal })
    api.fail(creating, { before: UNAVAILABLE }, Number.MAX_SAFE_INTEGER)
    const failed = expect(run()).rejects.toBe(UNAVAILABLE)
    await clock.elapse(1000)
    ending.abort()
    await failed
  })
})
