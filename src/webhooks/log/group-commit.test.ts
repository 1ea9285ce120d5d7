import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import { Refused, startGroupCommit } from '../../../test/support/group-commit-bed.ts'
import { GroupCommit, OverloadedError } from './group-commit.ts'

describe('a group commit', () => {
  it('writes a lone item at once', async () => {
    const { writes, commit, batches } = startGroupCommit()
    const result = commit.add('a')
    await settle(1)
    expect(batches()).toEqual(['a'])
    writes[0]?.end()
    expect(await result).toBe('A')
  })

  it('writes together what came while another batch was being written', async () => {
    const { writes, commit, batches } = startGroupCommit()
    const results = [commit.add('a')]
    await settle(1)
    results.push(commit.add('b'), commit.add('c'))
    await settle()
    expect(batches()).toEqual(['a'])
    expect([commit.waiting, commit.inFlight]).toEqual([2, 1])
    writes[0]?.end()
    await settle(1)
    expect(batches()).toEqual(['a', 'bc'])
    writes[1]?.end()
    expect(await Promise.all(results)).toEqual(['A', 'B', 'C'])
  })

  it('tells for how long something could not be written, whether it waits or is being written', async () => {
    const { clock, writes, commit } = startGroupCommit()
    expect(commit.oldestMs()).toBe(0)
    const results = [commit.add('a')]
    await settle(1)
    clock.advance(30)
    results.push(commit.add('b'))
    clock.advance(10)
    expect([commit.oldestWaitMs(), commit.oldestMs()]).toEqual([10, 40])
    writes[0]?.end()
    await settle(1)
    expect([commit.oldestWaitMs(), commit.oldestMs()]).toEqual([0, 10])
    writes[1]?.end()
    await Promise.all(results)
    expect(commit.oldestMs()).toBe(0)
  })

  it('writes together what came in one turn of the event loop', async () => {
    const { commit, batches } = startGroupCommit()
    for (const item of 'abc') void commit.add(item)
    await settle(1)
    expect(batches()).toEqual(['abc'])
  })

  it('has as many batches written at a time as allowed', async () => {
    const { writes, commit, batches } = startGroupCommit({
      maxInFlight: 2,
      plan: (waiting) => waiting.map((x) => [x]),
    })
    for (const item of 'abc') void commit.add(item)
    await settle()
    expect(batches()).toEqual(['a', 'b'])
    writes[1]?.end()
    await settle(1)
    expect(batches()).toEqual(['a', 'b', 'c'])
  })

  it('lets items linger for company, and tells how long the oldest waits', async () => {
    const { clock, commit, batches } = startGroupCommit({ lingerMs: 5 })
    void commit.add('a')
    await clock.elapse(3)
    void commit.add('b')
    await clock.elapse(1)
    expect(batches()).toEqual([])
    expect(commit.oldestWaitMs()).toBe(4)
    await clock.elapse(1)
    expect(batches()).toEqual(['ab'])
    expect(commit.oldestWaitMs()).toBe(0)
  })

  it('lets what came during a write linger from when it came', async () => {
    const { clock, writes, commit, batches } = startGroupCommit({ lingerMs: 5 })
    void commit.add('a')
    await clock.elapse(5)
    void commit.add('b')
    await clock.elapse(2)
    writes[0]?.end()
    await clock.elapse(2)
    expect(batches()).toEqual(['a'])
    await clock.elapse(1)
    expect(batches()).toEqual(['a', 'b'])
  })

  it('splits a refused batch down to the culprit, and gives only that the error', async () => {
    const seen: string[] = []
    const { commit } = startGroupCommit({
      write: async (batch) => {
        seen.push(batch.join(''))
        if (batch.includes('x')) throw new Refused('x is wrong')
        return batch.map((item) => item.toUpperCase())
      },
    })
    const results = await Promise.allSettled([...'abcxefg'].map((item) => commit.add(item)))
    expect(results.map((result) => (result.status === 'fulfilled' ? result.value : '-')).join('')).toBe(
      'ABC-EFG',
    )
    expect(seen).toEqual(['abcxefg', 'abcx', 'ab', 'cx', 'c', 'x', 'efg'])
  })

  it('gives an error that is nobody’s fault to the whole batch, without writing it again', async () => {
    const { writes, commit } = startGroupCommit()
    const results = Promise.allSettled([commit.add('a'), commit.add('b')])
    await settle()
    writes[0]?.fail(new Error('down'))
    expect((await results).map((result) => result.status)).toEqual(['rejected', 'rejected'])
    expect(writes).toHaveLength(1)
    const next = commit.add('c')
    await settle()
    writes[1]?.end()
    expect(await next).toBe('C')
  })

  it('refuses at once what would wait beyond the limit, and takes all of a call or none', async () => {
    const { commit } = startGroupCommit({ maxWaiting: 3 })
    for (const item of ['a', 'b', 'c']) void commit.add(item)
    await expect(commit.add('d')).rejects.toBeInstanceOf(OverloadedError)
    expect(commit.waiting).toBe(3)
    await settle()
    // What is being written does not wait any more.
    expect(commit.waiting).toBe(0)
  })

  it('drains: nobody lingers, and all has been written when it resolves', async () => {
    const { writes, commit, batches } = startGroupCommit({ lingerMs: 1_000 })
    void commit.add('a')
    let drained = false
    const draining = commit.drain().then(() => {
      drained = true
    })
    void commit.add('b')
    await settle()
    writes[0]?.end()
    await settle()
    expect(batches()).toEqual(['a', 'b'])
    expect(drained).toBe(false)
    writes[1]?.end()
    await draining
  })

  it('lets nobody linger who comes during a drain', async () => {
    const { clock, writes, commit, batches } = startGroupCommit({ lingerMs: 1_000, maxInFlight: 2 })
    void commit.add('a')
    await clock.elapse(1_000)
    const draining = commit.drain()
    void commit.add('b')
    await settle()
    expect(batches()).toEqual(['a', 'b'])
    for (const write of writes) write.end()
    await draining
  })

  it('drains at once when there is nothing', async () => {
    await startGroupCommit().commit.drain()
  })

  it('writes each item on its own when the plan fails', async () => {
    const { commit, batches, writes } = startGroupCommit({
      plan: () => {
        throw new Error('a bug')
      },
    })
    void commit.add('a')
    const second = commit.add('b')
    await settle()
    writes[0]?.end()
    await settle()
    writes[1]?.end()
    expect(await second).toBe('B')
    expect(batches()).toEqual(['a', 'b'])
  })

  it('gives equal items their results in the order of adding', async () => {
    const { commit } = startGroupCommit({ write: async (batch) => batch.map((_, index) => String(index)) })
    const results = await Promise.all([commit.add('a'), commit.add('a'), commit.add('b'), commit.add('a')])
    expect(results).toEqual(['0', '1', '2', '3'])
  })

  it('rejects when a write gives another number of results than items', async () => {
    const { commit } = startGroupCommit({ write: async () => ['A'] })
    const results = await Promise.allSettled([commit.add('a'), commit.add('b')])
    expect(results.map((result) => result.status)).toEqual(['rejected', 'rejected'])
  })

  it('settles each item exactly once, in the order of adding within what the plan keeps in order', async () => {
    const round = fc.record({
      items: fc.array(fc.constantFrom('a', 'b', 'x'), { maxLength: 12 }),
      bound: fc.integer({ min: 1, max: 4 }),
      turns: fc.nat(3),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(round, { maxLength: 8 }), async (rounds) => {
        let bound = 1
        const written: number[] = []
        const commit = new GroupCommit<{ id: number; name: string }, number>({
          plan: (waiting) => chunks(waiting, bound),
          write: async (batch) => {
            await settle(1)
            if (batch.some((item) => item.name === 'x')) throw new Refused()
            written.push(...batch.map((item) => item.id))
            return batch.map((item) => item.id)
          },
          isCulprit: (error) => error instanceof Refused,
          maxInFlight: 1,
          maxWaiting: 1_000,
          clock: new FakeClock(),
        })
        const items = rounds.flatMap((each) => each.items).map((name, id) => ({ id, name }))
        const results: Promise<PromiseSettledResult<number>[]>[] = []
        let from = 0
        for (const each of rounds) {
          bound = each.bound
          const added = items.slice(from, from + each.items.length).map((item) => commit.add(item))
          results.push(Promise.allSettled(added))
          from += each.items.length
          await settle(each.turns)
        }
        await commit.drain()
        const settled = (await Promise.all(results)).flat()
        const good = items.filter((item) => item.name !== 'x').map((item) => item.id)
        expect(written).toEqual(good)
        expect(settled.map((result) => (result.status === 'fulfilled' ? result.value : 'x'))).toEqual(
          items.map((item) => (item.name === 'x' ? 'x' : item.id)),
        )
      }),
      { numRuns: 60 },
    )
  })
})

function chunks<I>(items: readonly I[], size: number): I[][] {
  const all: I[][] = []
  for (let from = 0; from < items.length; from += size) all.push(items.slice(from, from + size))
  return all
}
