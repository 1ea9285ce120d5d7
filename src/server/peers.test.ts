import { describe, expect, test } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { ApiError } from '../kube/client.ts'
import {
  type PeerRecord,
  type PeerRecords,
  PeerServers,
  ReplicaHeartbeat,
  type StoredPeerRecord,
} from './peers.ts'

const LEASE_MS = 9000

class Records implements PeerRecords {
  readonly byName = new Map<string, StoredPeerRecord>()
  writes = 0
  lists = 0
  isDown = false
  /** Lists get no response. */
  hangs = false
  /** Names of records that cannot be removed. */
  readonly locked = new Set<string>()

  async list() {
    this.lists += 1
    if (this.hangs) await new Promise(() => undefined)
    return [...this.byName.values()]
  }

  async write(record: PeerRecord, over: string | undefined) {
    if (this.isDown) throw new ApiError('Unavailable', 'no answer')
    if (this.byName.get(record.name)?.version !== over) throw new ApiError('Conflict', 'changed')
    this.writes += 1
    this.byName.set(record.name, { ...record, version: String(this.writes) })
    return String(this.writes)
  }

  async remove(name: string, version: string) {
    if (this.locked.has(name)) throw new ApiError('Forbidden', 'a policy')
    if (this.byName.get(name)?.version !== version) throw new ApiError('Conflict', 'changed')
    this.byName.delete(name)
  }
}

const log = { info: () => undefined, warn: () => undefined, error: () => undefined }

const LOADING = 'the server is still loading endpoints'
const OUT_OF_SYNC = 'this API replica is temporarily out of sync'

async function bed() {
  const clock = new FakeClock()
  const records = new Records()
  const watch = { version: 100, isListed: false, reads: 0, behind: undefined as string | undefined }
  const shared = { leaseMs: LEASE_MS, records, clock, log }
  const presence = new ReplicaHeartbeat({
    ...shared,
    name: 'a',
    session: 'a.1',
    watch,
    read: () => {
      watch.reads += 1
      watch.isListed = false
    },
    behind: () => watch.behind ?? (watch.isListed ? undefined : 'being read'),
  })
  presence.start()
  await clock.elapse(10)
  const others = new PeerServers({ ...shared, name: 'b' })
  const read = async (version: number) => {
    Object.assign(watch, { version, isListed: true })
    await clock.elapse(200)
  }
  return { clock, records, watch, presence, others, read }
}

test('it begins to read when others wait for it, and decides nothing before that is done', async () => {
  const { records, watch, presence, read } = await bed()
  expect([records.writes, watch.reads, presence.problem]).toEqual([1, 1, LOADING])
  expect(presence.clientProblem).toBe(LOADING)
  await read(120)
  expect(presence.clientProblem).toBeUndefined()
  expect([presence.problem, records.byName.get('a')?.seen]).toEqual([undefined, 120])
})

test('with nothing to tell it writes every two ninths of its lease; what changes is told at once, ten times a second at most', async () => {
  const { clock, records, watch, presence, read } = await bed()
  await read(120)
  const before = records.writes
  await clock.elapse(60_000)
  expect(records.writes - before).toBeGreaterThanOrEqual(29)
  expect(records.writes - before).toBeLessThanOrEqual(32)
  const quiet = records.writes
  watch.version = 130
  presence.changed()
  await clock.elapse(1)
  expect([records.writes, records.byName.get('a')?.seen]).toEqual([quiet + 1, 130])
  for (let ms = 0; ms < 1000; ms += 1) {
    watch.version += 1
    presence.changed()
    await clock.elapse(1)
  }
  expect(records.writes - quiet).toBeLessThanOrEqual(12)
  expect(records.byName.get('a')?.seen).toBeGreaterThan(1000)
})

test('a lease that could not be renewed for two thirds of its time ends it, and after it all is read anew', async () => {
  const { clock, records, watch, presence, read } = await bed()
  await read(120)
  records.isDown = true
  await clock.elapse(3900)
  expect(presence.problem).toBeUndefined()
  await clock.elapse(2200)
  expect([presence.problem, presence.isWaitedFor]).toEqual([
    'the Lease of this replica could not be renewed',
    false,
  ])
  expect(presence.clientProblem).toBe(OUT_OF_SYNC)
  records.isDown = false
  await clock.elapse(600)
  expect([presence.problem, watch.reads]).toEqual([LOADING, 2])
  await read(140)
  expect(presence.problem).toBeUndefined()
})

test('a wall clock that jumps, as after the sleep of a machine, ends it as well', async () => {
  const { clock, watch, presence, read } = await bed()
  await read(120)
  clock.setWallBy(60_000)
  expect(presence.problem).toBe('the Lease of this replica could not be renewed')
  await clock.elapse(2500)
  expect([presence.problem, watch.reads]).toEqual([LOADING, 2])
})

test('one that cannot follow endpoints for as long as its lease is waited for no longer, and comes back when it can', async () => {
  const { clock, records, watch, presence, read } = await bed()
  await read(120)
  watch.behind = 'lost'
  await clock.elapse(LEASE_MS + 2500)
  expect([records.byName.has('a'), presence.problem]).toEqual([false, LOADING])
  await clock.elapse(60_000)
  expect(records.byName.has('a')).toBe(false)
  watch.behind = undefined
  await clock.elapse(2500)
  expect([records.byName.has('a'), watch.reads]).toEqual([true, 2])
  await read(150)
  expect(presence.problem).toBeUndefined()
})

test('another process of its name ends it for good', async () => {
  const { clock, records, presence, read } = await bed()
  await read(120)
  await records.write(
    { name: 'a', session: 'a.2', seen: 0, leaseMs: LEASE_MS },
    records.byName.get('a')?.version,
  )
  await clock.elapse(5000)
  expect(presence.problem).toBe('another process uses the name a')
  expect(presence.clientProblem).toBe(OUT_OF_SYNC)
  expect(records.byName.get('a')?.session).toBe('a.2')
})

test('whoever waits asks as long as it takes, and nothing else does', async () => {
  const { clock, records, watch, presence, others, read } = await bed()
  await read(120)
  const lists = records.lists
  await clock.elapse(30_000)
  expect(records.lists).toBe(lists)
  let answer: boolean | undefined
  const wait = async (version: number) => {
    answer = await others.haveSeen(() => version)
  }
  void wait(120)
  await clock.elapse(0)
  expect([answer, records.lists]).toEqual([true, lists + 1])
  answer = undefined
  void wait(125)
  await clock.elapse(500)
  expect(answer).toBeUndefined()
  watch.version = 125
  presence.changed()
  await clock.elapse(150)
  expect(answer).toBe(true)
  const after = records.lists
  await clock.elapse(1000)
  expect(records.lists).toBe(after)
})

test('one that is not renewed is waited for as long as its lease, and taken for dead from then on', async () => {
  const { clock, records, others, presence, read } = await bed()
  await read(120)
  records.isDown = true
  const answers: boolean[] = []
  const wait = () => void others.haveSeen(() => 130).then((haveSeen) => answers.push(haveSeen))
  wait()
  await clock.elapse(LEASE_MS - 100)
  expect([answers, presence.problem]).toEqual([[], 'the Lease of this replica could not be renewed'])
  await clock.elapse(200)
  expect(answers).toEqual([true])
  wait()
  await clock.elapse(0)
  expect(answers).toEqual([true, true])
})

test('one that lives and does not see it is not waited for without end', async () => {
  const { clock, others, read } = await bed()
  await read(120)
  const answers: boolean[] = []
  void others.haveSeen(() => 130).then((haveSeen) => answers.push(haveSeen))
  await clock.elapse(LEASE_MS + 1900)
  expect(answers).toEqual([])
  await clock.elapse(200)
  expect(answers).toEqual([false])
})

describe.each([1000, 5000, 250, 0])('while a list that began %d ms before gets no response', (before) => {
  test('a wait ends when it should', async () => {
    const { clock, records, others, read } = await bed()
    await read(120)
    records.hangs = true
    void others.haveSeen(() => 130)
    await clock.elapse(before)
    const answers: boolean[] = []
    void others.haveSeen(() => 130).then((haveSeen) => answers.push(haveSeen))
    await clock.elapse(LEASE_MS + 1900)
    expect(answers).toEqual([])
    await clock.elapse(200)
    expect(answers).toEqual([false])
    expect(others.waiting).toBe(0)
  })
})

describe('what crashed ones have left', () => {
  async function collecting(...dead: string[]) {
    const { clock, records, others, read } = await bed()
    await read(120)
    for (const name of dead)
      await records.write({ name, session: `${name}.1`, seen: 0, leaseMs: LEASE_MS }, undefined)
    const over = new AbortController()
    const tidying = others.collectExpiredForever(over.signal)
    const names = () => [...records.byName.keys()].sort()
    const end = () => {
      over.abort()
      return tidying
    }
    return { clock, records, others, names, end }
  }

  test('is removed when it has been expired for a while, and nothing of those that live', async () => {
    const { clock, names, end } = await collecting('dead')
    // The first list of the collector shows it.
    await clock.elapse(10_000 + LEASE_MS + 19_000)
    expect(names()).toEqual(['a', 'dead'])
    await clock.elapse(12_000)
    expect(names()).toEqual(['a'])
    await clock.elapse(100_000)
    expect(names()).toEqual(['a'])
    await end()
  })

  test('is removed sooner if the watch showed its last renewal', async () => {
    const { clock, records, others, names, end } = await collecting('dead')
    const last = records.byName.get('dead')
    if (last) others.heard(last)
    await clock.elapse(LEASE_MS + 19_000)
    expect(names()).toEqual(['a', 'dead'])
    await clock.elapse(12_000)
    expect(names()).toEqual(['a'])
    await end()
  })

  test.each([
    { locked: ['d1'], left: ['a', 'd1'] },
    { locked: ['d2'], left: ['a', 'd2'] },
    { locked: ['d3'], left: ['a', 'd3'] },
    { locked: ['d1', 'd2'], left: ['a', 'd1', 'd2'] },
    { locked: ['d1', 'd2', 'd3'], left: ['a', 'd1', 'd2', 'd3'] },
  ])('is removed but for $locked, which cannot be', async ({ locked, left }) => {
    const { clock, records, names, end } = await collecting('d1', 'd2', 'd3')
    for (const name of locked) records.locked.add(name)
    await clock.elapse(60_000)
    expect(names()).toEqual(left)
    records.locked.clear()
    await clock.elapse(12_000)
    expect(names()).toEqual(['a'])
    await end()
  })
})

describe('with a watch of the records', () => {
  async function watched() {
    const { clock, records, watch, presence, read } = await bed()
    await read(120)
    const feed = { isWatching: true }
    const others = new PeerServers({
      name: 'b',
      leaseMs: LEASE_MS,
      records,
      clock,
      log,
      isWatching: () => feed.isWatching,
    })
    const show = () => {
      const record = records.byName.get('a')
      if (record) others.heard(record)
    }
    const answers: boolean[] = []
    const wait = (needed: () => number | undefined) =>
      void others.haveSeen(needed).then((haveSeen) => answers.push(haveSeen))
    /** Another replica sees the version, and its watch event comes. */
    const see = async (version: number) => {
      watch.version = version
      presence.changed()
      await clock.elapse(100)
      show()
    }
    return { clock, records, watch, presence, others, feed, answers, wait, see, show }
  }

  test('a wait lists once, and again when another replica has seen more', async () => {
    const { clock, records, answers, wait, see } = await watched()
    wait(() => 125)
    await clock.elapse(0)
    await see(125)
    await clock.elapse(0)
    expect([answers, records.lists]).toEqual([[true], 3])
    await clock.elapse(10_000)
    expect(records.lists).toBe(3)
  })

  test('renewals and own records are no reason to list, and without a wait nothing is', async () => {
    const { clock, records, others, wait, show } = await watched()
    await clock.elapse(5_000)
    show()
    const idle = records.lists
    await clock.elapse(100)
    expect(records.lists).toBe(idle)
    wait(() => 125)
    await clock.elapse(30)
    const waiting = records.lists
    for (let time = 0; time < 100; time += 1) {
      show()
      others.heard({ name: 'b', session: 'b.1', seen: 200 + time, leaseMs: LEASE_MS, version: `${time}` })
      await clock.elapse(2)
    }
    expect(records.lists).toBe(waiting)
  })

  test('a watch that is silent delays an answer by a quarter of a second', async () => {
    const { clock, records, watch, presence, answers, wait } = await watched()
    wait(() => 125)
    await clock.elapse(0)
    watch.version = 125
    presence.changed()
    await clock.elapse(351)
    expect(answers).toEqual([true])
    expect(records.lists).toBeLessThanOrEqual(4)
  })

  test('a second change does not wait until the first one is looked for again', async () => {
    const { clock, answers, wait } = await watched()
    wait(() => 200)
    await clock.elapse(50)
    wait(() => 120)
    await clock.elapse(26)
    expect(answers).toEqual([true])
  })

  test('what this replica learns itself ends a wait at once', async () => {
    const { clock, others, answers, wait } = await watched()
    let removed: number | undefined
    wait(() => removed)
    await clock.elapse(50)
    removed = 120
    others.lookAgain()
    await clock.elapse(0)
    expect(answers).toEqual([true])
  })

  test('while it is lost, records are listed as often as without one', async () => {
    const { clock, records, feed, wait } = await watched()
    feed.isWatching = false
    const before = records.lists
    wait(() => 200)
    await clock.elapse(1_000)
    expect(records.lists - before).toBeGreaterThanOrEqual(39)
  })

  describe('when another one died', () => {
    /** @param agoMs how long before the change its last renewal was shown. @returns how long the change takes */
    async function wait(agoMs: number, shown: (last: StoredPeerRecord) => StoredPeerRecord) {
      const { clock, records, others } = await watched()
      await records.write({ name: 'dead', session: 'dead.1', seen: 0, leaseMs: LEASE_MS }, undefined)
      const last = records.byName.get('dead')
      if (last) others.heard(shown(last))
      for (let ms = 0; ms < agoMs; ms += 1000) await clock.elapse(Math.min(1000, agoMs - ms))
      let answer: boolean | undefined
      void others
        .haveSeen(() => 120)
        .then((haveSeen) => {
          answer = haveSeen
        })
      const asked = clock.monotonic()
      await clock.elapse(0)
      while (answer === undefined) await clock.elapse(100)
      return { answer, took: Math.floor((clock.monotonic() - asked) / 1000) }
    }

    test.each([
      { agoMs: 0, took: 9 },
      { agoMs: 3000, took: 6 },
      { agoMs: 8000, took: 1 },
      { agoMs: LEASE_MS, took: 0 },
      { agoMs: 10_000, took: 0 },
      { agoMs: 300_000, took: 0 },
    ])('$agoMs ms before, a change waits for the rest of its lease', async ({ agoMs, took }) => {
      expect(await wait(agoMs, (last) => last)).toEqual({ answer: true, took })
    })

    test.each([10_000, 60_000, 300_000])(
      'and a renewal was not shown for %d ms, a change waits for its whole lease',
      async (agoMs) => {
        expect(await wait(agoMs, (last) => ({ ...last, version: 'before' }))).toEqual({
          answer: true,
          took: 9,
        })
      },
    )
  })
})
