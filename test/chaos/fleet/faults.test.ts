import { describe, expect, test } from 'vitest'
import { SeededRandom } from '../seeded-random.ts'
import { collide, FAULT_KINDS, type Fault, type FaultKind, type PlanOptions, planFaults } from './faults.ts'
import type { Role } from './member.ts'

const OPTIONS: PlanOptions = {
  controllers: 3,
  servers: 2,
  leaseMs: 9000,
  between: 10,
  pace: 1,
  otherVersion: true,
}

function plan(seed: number, faultsOfEach: number): Fault[] {
  return [...planFaults(new SeededRandom(seed), { ...OPTIONS, faultsOfEach })]
}

describe('the plan of faults', () => {
  test('is the same for the same seed, and another for another', () => {
    expect(plan(7, 3)).toEqual(plan(7, 3))
    expect(plan(7, 3)).not.toEqual(plan(8, 3))
  })

  test('has as many of each kind as were asked for, with rests between', () => {
    const faults = plan(1, 20)
    const counts = Map.groupBy(faults, ({ kind }) => kind)
    expect([...counts].map(([kind, { length }]) => [kind, length]).sort()).toEqual(
      FAULT_KINDS.map((kind) => [kind, 20]).sort(),
    )
    const rests = faults.filter((fault) => fault.rests).length
    expect(rests).toBeGreaterThan(15)
    expect(rests).toBeLessThan(60)
  })

  test('without an end, does the same to roles in turns, unless only one was asked for', () => {
    const firstOf = (count: number, kinds?: readonly FaultKind[]) =>
      [...planFaults(new SeededRandom(5), { ...OPTIONS, ...(kinds ? { kinds } : {}) }).take(count)].map(
        ({ kind }) => kind,
      )
    const [bag, next] = [firstOf(28).slice(0, 14), firstOf(28).slice(14)]
    const ofBoth = (one: readonly FaultKind[]) =>
      one.filter((kind) => /^(kill|suspend|roll)/.test(kind)).sort()
    expect([bag, next].map(ofBoth)).toEqual([
      ['kill REST server', 'roll REST servers', 'suspend REST server'],
      ['kill controller', 'roll controllers', 'suspend controller'],
    ])
    expect(new Set([...bag, ...next]).size).toBe(FAULT_KINDS.length)
    expect(firstOf(2, ['kill REST server'])).toEqual(['kill REST server', 'kill REST server'])
  })

  test('changes to another version only where there is one', () => {
    const kinds = plan(1, 2).map(({ kind }) => kind)
    const without = [
      ...planFaults(new SeededRandom(1), { ...OPTIONS, faultsOfEach: 2, otherVersion: false }),
    ].map(({ kind }) => kind)
    expect([kinds, without].map((one) => one.includes('change version'))).toEqual([true, false])
  })

  test('restarts the API server within seconds for the most part, and now and then in a minute and more', () => {
    const times = plan(3, 60)
      .filter(({ kind }) => kind === 'API server restart')
      .map(({ forMs }) => forMs)
    expect(times.filter((ms) => ms <= 6000).length).toBeGreaterThan(30)
    expect(Math.max(...times)).toBeGreaterThan(60_000)
    expect(Math.max(...times)).toBeLessThanOrEqual(90_000)
  })

  test('suspends controllers so that they are counted out, and that others take over; a pause is noticed by nobody', () => {
    const suspended = plan(2, 30).filter(({ kind }) => kind === 'suspend controller')
    const { leaseMs } = OPTIONS
    const sorts = Map.groupBy(suspended, ({ forMs }) =>
      forMs <= leaseMs ? 'unnoticed' : forMs > leaseMs + 21_000 ? 'taken over' : 'counted out',
    )
    expect([...sorts.keys()].sort()).toEqual(['counted out', 'taken over'])
    const paused = plan(2, 30).filter(({ kind }) => kind === 'pause controller')
    expect(paused.filter(({ forMs }) => forMs > leaseMs * 0.6)).toEqual([])
  })

  test('touches every member that there is', () => {
    const targets = plan(2, 30).flatMap(({ target }) => (target ? [`${target.role}-${target.index}`] : []))
    expect(new Set(targets)).toEqual(
      new Set(['controller-0', 'controller-1', 'controller-2', 'api-0', 'api-1']),
    )
  })

  test('knows which exclude each other', () => {
    const [first] = plan(3, 1)
    const fault = (kind: Fault['kind'], index?: number, role: Role = 'controller'): Fault => {
      const { target: _, ...rest } = first ?? plan(4, 1)[0] ?? ({} as Fault)
      return { ...rest, kind, ...(index === undefined ? {} : { target: { role, index } }) }
    }
    expect(collide(fault('etcd restart'), fault('no space in etcd'))).toBe(true)
    expect(collide(fault('cut', 1), fault('deaf', 1))).toBe(true)
    expect(collide(fault('roll controllers'), fault('kill controller', 0))).toBe(true)
    expect(collide(fault('roll REST servers'), fault('kill REST server', 0, 'api'))).toBe(true)
    expect(collide(fault('roll controllers'), fault('roll REST servers'))).toBe(false)
    expect(collide(fault('roll controllers'), fault('kill REST server', 0, 'api'))).toBe(false)
    expect(collide(fault('roll REST servers'), fault('suspend controller', 0))).toBe(false)
    expect(collide(fault('cut', 1), fault('deaf', 2))).toBe(false)
    expect(collide(fault('cut', 1), fault('kill controller', 1))).toBe(false)
  })
})
