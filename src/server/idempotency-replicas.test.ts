import { expect, test } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import { Replica, SharedLog } from '../../test/support/key-replicas.ts'
import type { KeyRecord } from '../webhooks/log/idempotency-keys.ts'

const nothing = () => undefined

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
