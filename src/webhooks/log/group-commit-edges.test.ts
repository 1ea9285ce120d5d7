import { describe, expect, it } from 'vitest'
import { settle } from '../../../test/support/fake-clock.ts'
import { startGroupCommit } from '../../../test/support/group-commit-bed.ts'

const EACH = (waiting: readonly string[]) => waiting.map((item) => [item])

describe('the age of what is not written', () => {
  it('is that of the oldest of all that is being written or waits', async () => {
    const { clock, writes, commit } = startGroupCommit({ plan: EACH, maxInFlight: 2 })
    expect(commit.oldestMs()).toBe(0)
    void commit.add('a')
    await clock.elapse(5)
    void commit.add('b')
    await clock.elapse(5)
    void commit.add('c')
    await clock.elapse(5)
    expect(commit.oldestMs()).toBe(15)
    writes[0]?.end()
    await settle(1)
    expect(commit.oldestMs()).toBe(10)
    writes[1]?.end()
    await settle(1)
    expect(commit.oldestMs()).toBe(5)
    writes[2]?.end()
    await settle(1)
    expect(commit.oldestMs()).toBe(0)
  })
})

describe('a drain', () => {
  it('is over for lingering once it has ended', async () => {
    const { clock, writes, commit, batches } = startGroupCommit({ lingerMs: 10 })
    void commit.add('a')
    const drained = commit.drain()
    await settle(1)
    writes[0]?.end()
    await drained
    void commit.add('b')
    await clock.elapse(9)
    expect(batches()).toEqual(['a'])
    await clock.elapse(1)
    expect(batches()).toEqual(['a', 'b'])
  })

  it('does not end while something is being written', async () => {
    const { writes, commit } = startGroupCommit()
    void commit.add('a')
    await settle(1)
    let isOver = false
    const drained = commit.drain().then(() => {
      isOver = true
    })
    await settle()
    expect(isOver).toBe(false)
    writes[0]?.end()
    await drained
  })

  it('ends for all who wait for it', async () => {
    const { writes, commit } = startGroupCommit()
    void commit.add('a')
    const drains = [commit.drain(), commit.drain()]
    await settle(1)
    writes[0]?.end()
    await Promise.all(drains)
  })
})

describe('a plan that leaves items out', () => {
  it('lets them wait while others are being written, and no longer', async () => {
    let rounds = 0
    const { writes, commit, batches } = startGroupCommit({
      maxInFlight: 2,
      plan: (waiting) => {
        rounds += 1
        return rounds === 1 ? [waiting.slice(0, 1)] : []
      },
    })
    const results = [commit.add('a'), commit.add('b')]
    await settle()
    expect(batches()).toEqual(['a'])
    void commit.add('c')
    await settle()
    expect(batches()).toEqual(['a'])
    writes[0]?.end()
    await settle(1)
    expect(batches()).toEqual(['a', 'b', 'c'])
    writes[1]?.end()
    expect(await Promise.all(results)).toEqual(['A', 'B'])
  })

  it('writes once what it names twice', async () => {
    const { writes, commit, batches } = startGroupCommit({ plan: (waiting) => [[...waiting, ...waiting]] })
    const result = commit.add('a')
    await settle(1)
    expect(batches()).toEqual(['a'])
    writes[0]?.end()
    expect(await result).toBe('A')
  })
})

it('looks sooner for somebody who lingers no longer, and later for nobody', async () => {
  const pace = { perSecond: 10, burst: 1, enough: 3 }
  const { clock, writes, commit, batches } = startGroupCommit({ maxInFlight: 9, pace })
  void commit.add('a')
  await clock.elapse(0)
  writes[0]?.end()
  void commit.add('b')
  await clock.elapse(50)
  void commit.add('c')
  await clock.elapse(49)
  expect(batches()).toEqual(['a'])
  await clock.elapse(1)
  expect(batches()).toEqual(['a', 'bc'])
})
