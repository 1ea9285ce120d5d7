import { describe, expect, it } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { startGroupCommit } from '../../../test/support/group-commit-bed.ts'

const PACE = { perSecond: 100, burst: 2, enough: 3 }

describe('a group commit with a pace', () => {
  it('begins no more writes than its pace allows, and nobody waits where there are few', async () => {
    const { clock, writes, commit, batches } = startGroupCommit({ maxInFlight: 9, pace: PACE })
    const results: Promise<string>[] = []
    const add = async (item: string) => {
      results.push(commit.add(item))
      await settle(1)
    }
    for (const item of 'ab') await add(item)
    expect(batches()).toEqual(['a', 'b'])
    for (const item of 'cd') await add(item)
    writes[0]?.end()
    await clock.elapse(9)
    expect(batches()).toEqual(['a', 'b'])
    await clock.elapse(1)
    expect(batches()).toEqual(['a', 'b', 'cd'])
    await add('e')
    await clock.elapse(10)
    expect(batches()).toEqual(['a', 'b', 'cd', 'e'])
    for (const write of writes) write.end()
    expect(await Promise.all(results)).toEqual(['A', 'B', 'C', 'D', 'E'])
  })

  it('does not make as many wait as are enough for a write', async () => {
    const { clock, commit, batches } = startGroupCommit({ maxInFlight: 9, pace: { ...PACE, burst: 1 } })
    void commit.add('a')
    await settle(1)
    for (const item of 'bc') void commit.add(item)
    await settle()
    expect(batches()).toEqual(['a'])
    void commit.add('d')
    await settle(1)
    expect(batches()).toEqual(['a', 'bcd'])
    void commit.add('e')
    await clock.elapse(20)
    expect(batches()).toEqual(['a', 'bcd', 'e'])
  })

  it('does not make those wait who do nothing else until then, nor who waits with them', async () => {
    const pace = { ...PACE, burst: 1 }
    const { clock, commit, batches } = startGroupCommit({ maxInFlight: 9, lingerMs: 3, pace })
    void commit.add('a')
    await clock.elapse(3)
    void commit.add('b')
    await clock.elapse(4)
    expect(batches()).toEqual(['a'])
    void commit.add('c', { isUrgent: true })
    await clock.elapse(0)
    expect(batches()).toEqual(['a', 'bc'])
    void commit.add('d')
    await clock.elapse(9)
    expect(batches()).toEqual(['a', 'bc'])
  })

  it('begins fewer where writes take long', async () => {
    const pace = { perSecond: 100, burst: 1, writesApart: 2, enough: 9 }
    const { clock, writes, commit, batches } = startGroupCommit({ maxInFlight: 9, pace })
    for (let turn = 0; turn < 40; turn += 1) {
      void commit.add('x')
      await clock.elapse(20)
      writes.at(-1)?.end()
      await settle(1)
      await clock.elapse(60)
    }
    void commit.add('a')
    await settle(1)
    void commit.add('b')
    await clock.elapse(39)
    expect(batches().slice(-1)).toEqual(['a'])
    await clock.elapse(1)
    expect(batches().slice(-1)).toEqual(['b'])
  })

  it('does not mind its pace while it drains', async () => {
    const { writes, commit, batches } = startGroupCommit({ pace: { ...PACE, burst: 1 } })
    void commit.add('a')
    await settle(1)
    void commit.add('b')
    const drained = commit.drain()
    writes[0]?.end()
    await settle(1)
    expect(batches()).toEqual(['a', 'b'])
    writes[1]?.end()
    await drained
  })
})
