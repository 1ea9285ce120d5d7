import { createHash } from 'node:crypto'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import type { AcceptedEvent } from '../../api/delivery-segment.ts'
import { acceptEvent } from '../../domain/accept.ts'
import { KEY_LIFE_MS, type KeyRecord, keptOf, keyRecordOf } from '../../domain/key-record.ts'
import { sortableName } from '../../domain/message-id.ts'
import type { Appended } from '../../ports/delivery-log.ts'
import { ApiError } from '../../ports/kubernetes.ts'
import { RefusedError } from '../../ports/refused-error.ts'
import { Idempotency } from './idempotency.ts'
import { IdempotencyBook } from './idempotency-book.ts'

const nothing = () => undefined

/** The log as all facades share it; each sees it as far as it was shown. */
class SharedLog {
  /** What is there. */
  readonly #places = new Map<number, AcceptedEvent>()
  /** What was there at a time: a watch tells of each place, also of one that is gone by then. */
  readonly #told = new Map<number, AcceptedEvent>()
  version = 100
  /** Thrown by the next appends, before or after they are done. */
  readonly faults: ('before' | 'after')[] = []

  async append(events: readonly AcceptedEvent[]): Promise<Appended> {
    const fault = this.faults.shift()
    if (fault === 'before') throw new ApiError('Unavailable', 'no answer')
    for (const event of events) this.#add(event)
    if (fault === 'after') throw new ApiError('Unavailable', 'no answer')
    return { segment: `s${this.version}`, version: this.version, firstDelivery: 0 }
  }

  /** What is there says of keys. */
  stored(): KeyRecord[] {
    return recordsOf(this.#places)
  }

  /** What a watch tells of keys between two versions, in the log's order. */
  told(from: number, to: number): KeyRecord[] {
    return recordsOf([...this.#told].filter(([version]) => version > from && version <= to))
  }

  /** What retention does: the place goes, and what it said of a key is said again behind. */
  compact(nth: number): void {
    const version = [...this.#places.keys()][nth % Math.max(1, this.#places.size)]
    if (version === undefined) return
    const [record] = this.told(version - 1, version)
    if (record) this.#add(keptOf(record))
    this.#places.delete(version)
  }

  #add(event: AcceptedEvent): void {
    this.version += 1
    this.#places.set(this.version, event)
    this.#told.set(this.version, event)
  }
}

function recordsOf(places: Iterable<[number, AcceptedEvent]>): KeyRecord[] {
  return [...places].flatMap(([version, { event, targets }]) => {
    const place = { position: { version, index: 0 }, deliveries: targets.length, firstDelivery: 0 }
    return keyRecordOf(event, place) ?? []
  })
}

class Replica {
  readonly book: IdempotencyBook
  readonly keys: Idempotency
  behind: string | undefined
  #log: SharedLog
  #seen = 0
  #made = 0

  /** @param shuffled order in which what is there is read */
  constructor(log: SharedLog, clock: FakeClock, limits = { organization: 1000, all: 1000 }, number = 1) {
    this.#log = log
    const random = {
      fraction: () => 0,
      bytes: (count: number) => {
        this.#made += 1
        return createHash('sha256').update(`${number} ${this.#made}`).digest().subarray(0, count)
      },
    }
    this.book = new IdempotencyBook({ clock, limits })
    this.keys = new Idempotency({
      book: this.book,
      eventLog: log,
      hashKey: new Uint8Array(32),
      behind: () => this.behind,
      clock,
      random,
      log: { info: nothing, warn: nothing, error: nothing },
    })
    this.newId = () => sortableName(clock.now(), random.bytes(10))
  }

  newId: () => string

  /** Reads the log as a list does, in the order of `by`. */
  read(by: (record: KeyRecord) => number = () => 0): this {
    const records = this.#log.stored().toSorted((a, b) => by(a) - by(b))
    for (const record of records) this.book.take(record)
    this.#seen = this.#log.version
    return this
  }

  /** The watch shows the next `places`. */
  show(places = Number.POSITIVE_INFINITY): void {
    const to = Math.min(this.#log.version, this.#seen + places)
    for (const record of this.#log.told(this.#seen, to)) this.book.take(record)
    this.#seen = to
  }

  publish(key: string, asked = 'this', organization = 'acme') {
    return this.keys.once({ organization, operation: 'publish', key, asked }, async (mark) => {
      const id = this.newId()
      const event = { name: id, namespace: organization, type: 'a.b', dataText: '{}', acceptedAt: 0, ...mark }
      await this.#log.append([acceptEvent(event, [{ name: 'billing', uid: 'uid-1' }])])
      return id
    })
  }

  make(key: string, act: (id: string) => Promise<string>, check?: () => void) {
    const request = { organization: 'acme', operation: 'create', key, asked: 'this' }
    return this.keys.around(request, { act, ...(check ? { check } : {}) })
  }
}

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

async function codeOf(answer: Promise<unknown>): Promise<string> {
  return await answer.then(
    () => 'answered',
    (error: unknown) => (error instanceof RefusedError ? error.code : String(error)),
  )
}

describe('an event', () => {
  test('is appended once, and the repeat is told of the same place', async () => {
    const given = bed()
    const first = await shown(given, given.first.publish('k1'))
    const again = await shown(given, given.first.publish('k1'))
    expect(first).toMatchObject({ first: { deliveries: 1, version: 101, index: 0 }, replayed: false })
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

  test('is refused while what the log holds is not known', async () => {
    const given = bed()
    given.first.behind = 'keys are being read'
    expect(await codeOf(given.first.publish('k1'))).toBe('overloaded')
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

  test('is checked before anything is written, and not in a repeat', async () => {
    const given = bed()
    const refuse = () => {
      throw new RefusedError('too_many_endpoints')
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

  test('that is made is answered as made, though that could not be noted', async () => {
    const given = bed()
    const act = async () => {
      given.log.faults.push('before')
      return 'made'
    }
    expect(await shown(given, given.first.make('k1', act))).toMatchObject({ result: 'made', replayed: false })
  })
})

type Step =
  | { kind: 'request'; replica: number; key: string; asked: string }
  | { kind: 'show'; replica: number; places: number }
  | { kind: 'restart'; replica: number; order: number }
  | { kind: 'compact'; nth: number }
  | { kind: 'fault'; when: 'before' | 'after' }

const REPLICAS = 3
const replica = fc.nat(REPLICAS - 1)
const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('request' as const),
      replica,
      key: fc.constantFrom('k1', 'k2'),
      asked: fc.constantFrom('this', 'this', 'that'),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({
      kind: fc.constant('show' as const),
      replica,
      places: fc.integer({ min: 1, max: 4 }),
    }),
  },
  {
    weight: 2,
    arbitrary: fc.record({ kind: fc.constant('restart' as const), replica, order: fc.nat(1000) }),
  },
  { weight: 2, arbitrary: fc.record({ kind: fc.constant('compact' as const), nth: fc.nat(20) }) },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant('fault' as const),
      when: fc.constantFrom('before' as const, 'after' as const),
    }),
  },
)

/** Takes the steps, and gives what was answered. */
async function run(steps: readonly Step[]): Promise<{ key: string; asked: string; id: string }[]> {
  const clock = new FakeClock()
  const log = new SharedLog()
  let number = 0
  const start = (order = 0) => {
    number += 1
    const by = ({ position: { version } }: KeyRecord) => (version * (order + 1)) % 7
    return new Replica(log, clock, undefined, number).read(by)
  }
  const replicas = Array.from({ length: REPLICAS }, () => start())
  const answers: { key: string; asked: string; id: string }[] = []
  const ask = async ({ replica, key, asked }: Extract<Step, { kind: 'request' }>) => {
    const answer = await replicas[replica]?.publish(key, asked)
    if (answer) answers.push({ key, asked, id: answer.first.id })
  }
  for (const taken of steps) {
    if (taken.kind === 'request') void ask(taken).catch(nothing)
    else if (taken.kind === 'show') replicas[taken.replica]?.show(taken.places)
    else if (taken.kind === 'restart') replicas[taken.replica] = start(taken.order)
    else if (taken.kind === 'compact') log.compact(taken.nth)
    else log.faults.push(taken.when)
    await settle(2)
  }
  log.faults.length = 0
  const finish = async () => {
    await settle(3)
    for (const each of replicas) each.show()
    await settle(3)
  }
  await finish()
  for (const key of ['k1', 'k2'])
    for (let replica = 0; replica < REPLICAS; replica += 1)
      void ask({ kind: 'request', replica, key, asked: 'this' }).catch(nothing)
  await finish()
  return answers
}

test('whatever replicas, restarts, lost answers and retention do, all answers to one key tell of one place', async () => {
  let repeats = 0
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), async (steps) => {
      const answers = await run(steps)
      for (const told of Map.groupBy(answers, ({ key }) => key).values()) {
        repeats += told.length - 1
        expect(new Set(told.map(({ id }) => id)).size).toBe(1)
        expect(new Set(told.map(({ asked }) => asked)).size).toBe(1)
      }
    }),
    { numRuns: 150 },
  )
  expect(repeats).toBeGreaterThan(100)
})
