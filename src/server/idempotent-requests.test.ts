import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { Replica, SharedLog } from '../../test/support/key-replicas.ts'
import { ApiError } from '../kube/client.ts'
import { KEY_LIFE_MS } from '../webhooks/log/idempotency-keys.ts'
import { Problem } from './http/problems.ts'

const nothing = () => undefined

function bed(replicas = 1, limits?: { organization: number; all: number }) {
  const clock = new FakeClock()
  const log = new SharedLog()
  const all = Array.from({ length: replicas }, (_, number) => new Replica(log, clock, limits, number))
  const [first = new Replica(log, clock)] = all
  return { clock, log, all, first, showAll: () => all.map((replica) => replica.show()) }
}

/** The result once the log was shown to all. */
async function shown<T>({ showAll }: { showAll: () => void }, answer: Promise<T>): Promise<T> {
  let over = false
  answer.then(
    () => {
      over = true
    },
    () => {
      over = true
    },
  )
  for (let turn = 0; turn < 50 && !over; turn += 1) {
    await settle(1)
    showAll()
  }
  return await answer
}

describe('an event', () => {
  test('is appended once, and the repeat is told of the same place', async () => {
    const given = bed()
    const first = await shown(given, given.first.publish('k1'))
    const again = await shown(given, given.first.publish('k1'))
    const place = { deliveries: 1, position: { version: 101 }, firstDelivery: 0 }
    expect(first).toMatchObject({ first: place, replayed: false })
    expect(again).toEqual({ ...first, replayed: true })
    expect(given.log.version).toBe(101)
  })

  test('is not answered before the log has shown it', async () => {
    const given = bed()
    let answered = false
    const answer = given.first.publish('k1').then(() => {
      answered = true
    })
    await settle()
    expect(answered).toBe(false)
    given.showAll()
    await answer
    expect(answered).toBe(true)
  })

  test('under the same key for something else is a conflict, also while the first is under way', async () => {
    const given = bed(2)
    const both = given.all.map((replica, number) => codeOf(replica.publish('k1', `request ${number}`)))
    expect((await shown(given, Promise.all(both))).toSorted()).toEqual(['answered', 'idempotency_conflict'])
    expect(await codeOf(given.first.publish('k1', 'third'))).toBe('idempotency_conflict')
  })

  test('of another organization or another operation has the key for itself', async () => {
    const given = bed()
    const answers = [given.first.publish('k1', 'this', 'acme'), given.first.publish('k1', 'that', 'globex')]
    const ids = (await shown(given, Promise.all(answers))).map(({ first }) => first.id)
    expect(new Set(ids).size).toBe(2)
    const made = await shown(
      given,
      given.first.make('k1', async () => 'made'),
    )
    expect(made.replayed).toBe(false)
  })

  test('of a namespace that was recreated is another one, whatever the earlier one had asked', async () => {
    const given = bed(2)
    const first = await shown(given, given.first.publish('k1', 'this'))
    given.showAll()
    for (const replica of given.all) replica.organize('acme', 'uid-of-another')
    const another = await shown(given, Promise.resolve(given.all[1]?.publish('k1', 'that')))
    expect(another).toMatchObject({ replayed: false })
    expect(another?.first.id).not.toBe(first.first.id)
    given.showAll()
    expect(await shown(given, given.first.publish('k1', 'that'))).toEqual({ ...another, replayed: true })
    // With the first one's UID again, so it is the same namespace.
    given.first.organize('acme')
    expect(await shown(given, given.first.publish('k1', 'this'))).toEqual({ ...first, replayed: true })
  })

  test('of an organization that is gone by now is not found', async () => {
    const given = bed()
    given.first.organizations.remove({ name: 'acme' })
    expect(await codeOf(given.first.publish('k1'))).toBe('not_found')
    expect(given.log.version).toBe(100)
  })

  test('is another one after a day', async () => {
    const given = bed()
    const first = await shown(given, given.first.publish('k1'))
    given.clock.advance(KEY_LIFE_MS)
    const again = await shown(given, given.first.publish('k1'))
    expect(again.replayed).toBe(false)
    expect(again.first.id).not.toBe(first.first.id)
    expect(given.first.book.size).toBe(1)
  })

  test('is another one after a day at a replica that was not asked since', async () => {
    const given = bed(2)
    const [a, b] = given.all
    await shown(given, given.first.publish('k1', 'this'))
    given.showAll()
    given.clock.advance(KEY_LIFE_MS)
    const young = await shown(given, Promise.resolve(a?.publish('k1', 'that')))
    given.showAll()
    expect(await shown(given, Promise.resolve(b?.publish('k1', 'that')))).toEqual({
      ...young,
      replayed: true,
    })
  })

  test('that a clock a year ahead accepted is another one after a day, at other replicas and after a restart too', async () => {
    const given = bed(2)
    const year = 365 * KEY_LIFE_MS
    given.clock.setWallBy(year)
    const first = await shown(given, given.first.publish('k1'))
    given.clock.setWallBy(-year)
    given.showAll()
    const restarted = new Replica(given.log, given.clock, undefined, 9).read()
    const repeat = await shown(given, restarted.publish('k1'))
    expect(repeat).toMatchObject({ first: { id: first.first.id }, replayed: true })
    given.clock.advance(KEY_LIFE_MS)
    const again = await shown(given, Promise.resolve(given.all[1]?.publish('k1', 'that')))
    expect(again).toMatchObject({ replayed: false })
    restarted.show()
    expect(await restarted.publish('k1', 'that')).toEqual({ ...again, replayed: true })
  })

  test('of a clock that was ahead takes none of the room of others for longer than a day', async () => {
    const given = bed(2, { organization: 2, all: 2 })
    given.clock.setWallBy(365 * KEY_LIFE_MS)
    await shown(given, given.first.publish('k1'))
    given.clock.setWallBy(-365 * KEY_LIFE_MS)
    given.showAll()
    const [, other] = given.all
    for (let day = 0; day < 3; day += 1) {
      given.clock.advance(KEY_LIFE_MS)
      for (const key of [`a${day}`, `b${day}`])
        expect(await shown(given, Promise.resolve(other?.publish(key)))).toMatchObject({ replayed: false })
    }
  })

  test('whose append a clock that was ahead made is not awaited for longer than a day', async () => {
    const given = bed()
    given.clock.setWallBy(365 * KEY_LIFE_MS)
    given.log.isLost = true
    const lost = codeOf(given.first.publish('k1'))
    await given.clock.elapse(10_000)
    expect(await lost).toBe('unavailable')
    given.log.isLost = false
    given.clock.setWallBy(-365 * KEY_LIFE_MS)
    given.clock.advance(KEY_LIFE_MS)
    expect(await shown(given, given.first.publish('k1'))).toMatchObject({ replayed: false })
  })

  test('whose append had no answer is found by the repeat, if it was written', async () => {
    const given = bed()
    given.log.faults.push('after')
    await expect(shown(given, given.first.publish('k1'))).rejects.toThrow(ApiError)
    given.showAll()
    expect(await shown(given, given.first.publish('k1'))).toMatchObject({ replayed: true })
    expect(given.log.version).toBe(101)
  })

  test('that the log does not show in time is neither accepted nor refused', async () => {
    const given = bed()
    const answer = codeOf(given.first.publish('k1'))
    await given.clock.elapse(10_000)
    expect(await answer).toBe('unavailable')
  })

  test('that the log does not show in time is not appended again by those who repeat it', async () => {
    const given = bed()
    const first = codeOf(given.first.publish('k1'))
    await given.clock.elapse(6000)
    // It waits for the same place, and as long as the first.
    const meanwhile = codeOf(given.first.publish('k1'))
    await given.clock.elapse(4000)
    expect(await first).toBe('unavailable')
    await given.clock.elapse(6000)
    expect(await meanwhile).toBe('unavailable')
    const after = given.first.publish('k1')
    const other = codeOf(given.first.publish('k1', 'that'))
    await settle()
    expect(given.log.version).toBe(101)
    given.showAll()
    expect(await after).toMatchObject({ first: { position: { version: 101 } }, replayed: true })
    expect(await other).toBe('idempotency_conflict')
  })

  test('is refused while what the log holds is not known', async () => {
    const given = bed()
    given.first.behind = 'the server is still loading idempotency keys'
    await expect(given.first.publish('k1')).rejects.toMatchObject({
      code: 'overloaded',
      detail:
        'Davit cannot yet determine whether this Idempotency-Key has already been used: the server is still loading idempotency keys. Retry the request.',
    })
    expect(given.log.version).toBe(100)
  })

  test('is refused when as many keys stand as may, and a repeat is not', async () => {
    const given = bed(1, { organization: 2, all: 1000 })
    for (const key of ['k1', 'k2']) await shown(given, given.first.publish(key))
    expect(await codeOf(given.first.publish('k3'))).toBe('overloaded')
    expect(await shown(given, given.first.publish('k2'))).toMatchObject({ replayed: true })
    expect(await shown(given, given.first.publish('k3', 'this', 'globex'))).toMatchObject({ replayed: false })
    given.clock.advance(KEY_LIFE_MS)
    expect(await shown(given, given.first.publish('k3'))).toMatchObject({ replayed: false })
  })
})

describe('what is made outside of the log', () => {
  test('is made once, under the id that the log has for it', async () => {
    const given = bed()
    const ids: string[] = []
    const act = async (id: string) => {
      ids.push(id)
      return 'made'
    }
    const first = await shown(given, given.first.make('k1', act))
    given.showAll()
    const again = await shown(given, given.first.make('k1', act))
    expect(first).toEqual({ id: ids[0], result: 'made', replayed: false })
    expect(again).toEqual({ id: ids[0], replayed: true })
    expect(ids).toHaveLength(1)
  })

  test('is made again in a namespace that was recreated, also while the earlier request is under way', async () => {
    const given = bed()
    const ids: string[] = []
    void given.first.make('k1', (id) => {
      ids.push(id)
      return new Promise(nothing)
    })
    await settle()
    given.showAll()
    await settle()
    given.first.organize('acme', 'uid-of-another')
    const act = async (id: string) => {
      ids.push(id)
      return 'made'
    }
    expect(await shown(given, given.first.make('k1', act))).toMatchObject({ result: 'made', replayed: false })
    expect(new Set(ids).size).toBe(2)
  })

  test('is checked before anything is written, and not in a repeat', async () => {
    const given = bed()
    const refuse = async () => {
      throw new Problem('too_many_endpoints')
    }
    expect(await codeOf(given.first.make('k1', async () => 'made', refuse))).toBe('too_many_endpoints')
    expect(given.log.version).toBe(100)
    await shown(
      given,
      given.first.make('k1', async () => 'made'),
    )
    given.showAll()
    expect(
      await shown(
        given,
        given.first.make('k1', async () => 'made', refuse),
      ),
    ).toMatchObject({ replayed: true })
  })

  test('is waited for by a repeat that comes meanwhile, at another replica too', async () => {
    const given = bed(2)
    const [a, b] = given.all
    let finish: (made: string) => void = nothing
    const slow = a?.make(
      'k1',
      () =>
        new Promise((resolve) => {
          finish = resolve
        }),
    )
    await settle()
    given.showAll()
    await settle()
    const acts: string[] = []
    const repeat = b?.make('k1', async (id) => {
      acts.push(id)
      return 'made again'
    })
    await settle()
    finish('made')
    expect(await shown(given, Promise.all([slow, repeat]))).toMatchObject([
      { result: 'made', replayed: false },
      { replayed: true },
    ])
    expect(acts).toEqual([])
  })

  test('goes on under the same id where the first ended before it was done', async () => {
    const given = bed(2)
    const [a, b] = given.all
    const ids: string[] = []
    void a?.make('k1', (id) => {
      ids.push(id)
      return new Promise(nothing)
    })
    await settle()
    given.showAll()
    await settle()
    const repeat = b?.make('k1', async (id) => {
      ids.push(id)
      return 'made'
    })
    await given.clock.elapse(15_000)
    expect(await shown(given, Promise.resolve(repeat))).toMatchObject({ replayed: true, result: 'made' })
    expect(ids).toHaveLength(2)
    expect(ids[0]).toBe(ids[1])
  })

  test('by a replica whose clock was ahead and that died is made by the repeat as soon as any other', async () => {
    const given = bed(2)
    const [a, b] = given.all
    given.clock.setWallBy(365 * KEY_LIFE_MS)
    void a?.make('k1', () => new Promise(nothing))
    await settle()
    given.clock.setWallBy(-365 * KEY_LIFE_MS)
    given.showAll()
    await settle()
    const repeat = b?.make('k1', async () => 'made')
    await given.clock.elapse(15_000)
    expect(await shown(given, Promise.resolve(repeat))).toMatchObject({ replayed: true, result: 'made' })
  })

  test('that could not be made here is tried again at once', async () => {
    const given = bed()
    const fails = given.first.make('k1', async () => {
      throw new ApiError('Unavailable', 'not now')
    })
    await expect(shown(given, fails)).rejects.toThrow(ApiError)
    const again = await shown(
      given,
      given.first.make('k1', async () => 'made'),
    )
    expect(again).toMatchObject({ result: 'made', replayed: true })
  })

  test('whose claim the log did not show in time is made by the next request, at once', async () => {
    const given = bed()
    const first = codeOf(given.first.make('k1', async () => 'made'))
    await given.clock.elapse(10_000)
    expect(await first).toBe('unavailable')
    const acts: string[] = []
    const act = async (id: string) => {
      acts.push(id)
      return 'made'
    }
    const again = Promise.all([given.first.make('k1', act), given.first.make('k1', act)])
    expect(await shown(given, again)).toMatchObject([{ result: 'made', replayed: true }, { replayed: true }])
    expect(acts).toHaveLength(1)
  })

  test('that is made is answered as made, though that could not be noted', async () => {
    const given = bed()
    const act = async () => {
      given.log.faults.push('before')
      return 'made'
    }
    expect(await shown(given, given.first.make('k1', act))).toMatchObject({ result: 'made', replayed: false })
  })
})

describe('a request of several parts', () => {
  const idsOf = (found: readonly ({ first: { id: string } } | undefined)[]) =>
    found.map((one) => one?.first.id)

  test('is appended once, in order, and its repeat is told of the same places', async () => {
    const given = bed(2)
    const [one, other = one] = given.all
    const first = await shown(given, given.first.publishAll('k1', 5))
    expect(given.log.stored().map(({ id }) => id)).toEqual(idsOf(first))
    const again = await shown(given, other?.publishAll('k1', 5) ?? Promise.reject(new Error('no replica')))
    expect(idsOf(again)).toEqual(idsOf(first))
    expect(again.every((part) => part?.replayed === true)).toBe(true)
    expect(given.log.version).toBe(105)
  })

  test('that broke off is completed by its repeat, of which only the rest is new', async () => {
    const given = bed()
    given.log.faults.push(...([undefined, 'before'] as unknown as 'before'[]))
    expect(await codeOf(given.first.publishAll('k1', 5))).not.toBe('answered')
    expect(given.log.version).toBe(102)
    const again = await shown(given, given.first.publishAll('k1', 5))
    expect(again.map((part) => part?.replayed)).toEqual([true, true, false, false, false])
    expect(given.log.version).toBe(105)
  })

  test('is appended once by replicas that get it at the same time', async () => {
    const given = bed(3)
    const answers = await shown(given, Promise.all(given.all.map((replica) => replica.publishAll('k1', 4))))
    const [ids] = answers.map(idsOf)
    for (const answer of answers) expect(idsOf(answer)).toEqual(ids)
    expect(answers.flat().filter((part) => part?.replayed === false)).toHaveLength(4)
  })

  test('leaves parts out, which a repeat may append', async () => {
    const given = bed()
    const first = await shown(given, given.first.publishAll('k1', 3, { rejected: [1] }))
    expect(first.map((part) => part === undefined)).toEqual([false, true, false])
    const again = await shown(given, given.first.publishAll('k1', 3))
    expect(again.map((part) => part?.replayed)).toEqual([true, false, true])
  })

  test('under the same key as others is a conflict, and shares no key with a request of one part', async () => {
    const given = bed()
    await shown(given, given.first.publishAll('k1', 2))
    expect(await codeOf(given.first.publishAll('k1', 2, { asked: 'others' }))).toBe('idempotency_conflict')
    const single = await shown(given, given.first.publish('k1'))
    expect(single.replayed).toBe(false)
  })

  test('that the log has not shown yet keeps others under the same key from being appended', async () => {
    const given = bed()
    const first = given.first.publishAll('k1', 2)
    await settle()
    expect(given.log.version).toBe(102)
    expect(await codeOf(given.first.publishAll('k1', 3, { asked: 'others' }))).toBe('idempotency_conflict')
    expect(given.log.version).toBe(102)
    expect((await shown(given, first)).length).toBe(2)
  })

  test('needs as many keys as it has parts', async () => {
    const given = bed(1, { organization: 3, all: 100 })
    expect(await codeOf(given.first.publishAll('k1', 4))).toBe('overloaded')
    expect(given.log.version).toBe(100)
    expect((await shown(given, given.first.publishAll('k2', 3))).length).toBe(3)
  })
})
