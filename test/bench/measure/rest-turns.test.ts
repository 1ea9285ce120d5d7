import { describe, expect, test } from 'vitest'
import { turn } from '../rest-load-samples.ts'
import { publishingCases, type RestTurn, type Round, replicaLoads, tlsCases, turnOf } from './rest-turns.ts'

const LOAD = 'a load'

function rounds(...turns: Partial<RestTurn>[]): Round[] {
  return turns.map((changes) => new Map([[LOAD, turn(changes)]]))
}

function cpu(restServer: number, others = 0): Partial<RestTurn> {
  return {
    cpu: { restServer, controller: others, apiServer: others, etcd: others, clients: 99, receiver: 99 },
  }
}

const once = (value: number) => ({ min: value, median: value, max: value })

describe('a turn', () => {
  const loaded = {
    perSecond: 1500,
    published: { accepted: { count: 9, p50: 1, p90: 2, p99: 3, max: 4 } },
    received: { latency: { count: 9, p50: 5, p90: 6, p99: 7, max: 8 } },
    writesPerDelivery: 0.1,
  }

  test.for([
    { given: { 'restServer-0': 0.2, controller: 0.1 }, want: { restServer: 0.2, controller: 0.1 } },
    { given: { 'restServer-0': 0.25, 'restServer-1': 0.5, etcd: 1 }, want: { restServer: 0.75, etcd: 1 } },
    {
      given: { clients: 3, 'restServer-0': 1, 'restServer-1': 2, 'restServer-2': 4 },
      want: { clients: 3, restServer: 7 },
    },
    { given: { controller: 1 }, want: { controller: 1 } },
  ])('counts all REST servers of $given as one', ({ given, want }) => {
    expect(turnOf({ ...loaded, cpuPerDelivery: given }).cpu).toEqual(want)
  })

  test('has the times of responses and of receipts', () => {
    expect(turnOf({ ...loaded, cpuPerDelivery: {} })).toEqual({
      perSecond: 1500,
      receipt: { p50: 5, p99: 7 },
      answered: { p50: 1, p99: 3 },
      cpu: {},
      writesPerDelivery: 0.1,
    })
  })
})

describe('publishing', () => {
  test('is relative to the raw loop just before and after it, round by round', () => {
    const measured = rounds({ perSecond: 2000 }, { perSecond: 1500 }, { perSecond: 4500 })
    const [found] = publishingCases(measured, [3000, 5000, 1000, 8000])
    expect(found?.ofRaw).toEqual({ min: 0.5, median: 0.5, max: 1 })
    expect(found?.perSecond).toEqual({ min: 1500, median: 2000, max: 4500 })
  })

  test('has a median of each process and of each quantile', () => {
    const measured = rounds(
      { receipt: { p50: 1, p99: 10 }, cpu: { etcd: 3 } },
      { receipt: { p50: 3, p99: 30 }, cpu: { etcd: 1 } },
    )
    const [found] = publishingCases(measured, [1, 1, 1])
    expect(found?.receipt).toEqual({
      p50: { min: 1, median: 2, max: 3 },
      p99: { min: 10, median: 20, max: 30 },
    })
    expect(found?.cpu).toEqual({ etcd: { min: 1, median: 2, max: 3 } })
  })

  test('loads keep the order of the first round', () => {
    const first = new Map([
      ['a', turn()],
      ['b', turn()],
    ])
    const second = new Map([...first].reverse())
    expect(publishingCases([first, second], [1, 1, 1]).map(({ name }) => name)).toEqual(['a', 'b'])
  })

  test('a round that lacks a load is rejected', () => {
    expect(() => publishingCases([...rounds({}), new Map()], [1, 1, 1])).toThrow('a round lacks a load')
  })
})

describe('TLS', () => {
  test('is relative to the turn without it in the same round', () => {
    const off = rounds({ perSecond: 1000, ...cpu(0.2, 0.2) }, { perSecond: 2000, ...cpu(0.1, 0.1) })
    const on = rounds({ perSecond: 800, ...cpu(0.3, 0.2) }, { perSecond: 1200, ...cpu(0.2, 0.1) })
    const [found] = tlsCases(off, on)
    expect(found?.ratio.perSecond.min).toBeCloseTo(0.6)
    expect(found?.ratio.perSecond.max).toBeCloseTo(0.8)
    expect(found?.ratio.restServerCpu.min).toBeCloseTo(1.5)
    expect(found?.ratio.restServerCpu.max).toBeCloseTo(2)
    // 0.8 to 0.9, and 0.4 to 0.5: the clients and the receiver do not count.
    expect(found?.ratio.allCpu.min).toBeCloseTo(0.9 / 0.8)
    expect(found?.ratio.allCpu.max).toBeCloseTo(0.5 / 0.4)
  })

  test('rounds that one of both lacks are not compared', () => {
    expect(() => tlsCases(rounds({}, {}), rounds({}))).toThrow('2 rounds differ')
  })
})

describe('REST servers', () => {
  const one = rounds(cpu(0.2, 0.1), cpu(0.4, 0.1))
  const two = rounds(cpu(0.3, 0.1), cpu(0.5, 0.1))
  const three = rounds(cpu(0.35, 0.2), cpu(0.55, 0.2))

  test('cost as much as one, relative to it in the same round', () => {
    const [found] = replicaLoads([one, two, three])
    const ratios = found?.counts.map(({ restServerCpu }) => [restServerCpu.min, restServerCpu.max])
    expect(ratios).toEqual([
      [1, 1],
      [expect.closeTo(1.25), expect.closeTo(1.5)],
      [expect.closeTo(1.375), expect.closeTo(1.75)],
    ])
  })

  test('the second and the third add what they cost more than one fewer', () => {
    const [found] = replicaLoads([one, two, three])
    expect(found?.counts.map(({ servers }) => servers)).toEqual([1, 2, 3])
    expect(found?.counts.map(({ addedRestServerCpu }) => addedRestServerCpu.median)).toEqual([
      0,
      expect.closeTo(0.1),
      expect.closeTo(0.05),
    ])
    expect(found?.counts.map(({ addedAllCpu }) => addedAllCpu.median)).toEqual([
      0,
      expect.closeTo(0.1),
      expect.closeTo(0.35),
    ])
  })

  test('with one alone there is nothing to compare', () => {
    const [found] = replicaLoads([one])
    expect(found?.counts).toHaveLength(1)
    expect(found?.counts[0]?.restServerCpu).toEqual(once(1))
  })
})
