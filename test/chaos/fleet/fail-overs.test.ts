import { describe, expect, it } from 'vitest'
import { type FleetEvidence, judgeFleet } from './fleet-verdict.ts'
import { fleetViolations } from './fleet-violations.ts'
import { evidence, fault, PROMISED, wrong } from './made-evidence.ts'

describe('a fail-over', () => {
  const kill = { ...fault('kill controller', 1000, 1500, [1]), blows: [{ life: 1, at: 1000 }] }
  const goneOnAfter = (ms: number, more: Partial<FleetEvidence> = {}) =>
    evidence('ab', `a+1@900-910 b+2@${1000 + ms}-${1010 + ms}`, { faults: [kill], ...more })

  it('tells how long it took until another process went on, and complains beyond the bound', () => {
    expect(judgeFleet(goneOnAfter(30_000)).failOvers).toMatchObject([
      { endpoint: 'o', ms: 30_000, alone: true },
    ])
    expect(wrong(goneOnAfter(30_000))).toEqual([])
    expect(wrong(goneOnAfter(40_000))).toEqual([
      '1 fail-overs that took longer than is promised: kill controller o 40000 ms, allowed 39000',
    ])
  })

  it('is shorter for an endpoint without an order, which need not wait for attempts that may be in progress', () => {
    const endpoints = evidence('ab', '').endpoints.map(({ ordered: _, ...one }) => one)
    const unordered = (ms: number) => wrong(goneOnAfter(ms, { endpoints }))
    expect(unordered(18_000)).toEqual([])
    expect(unordered(20_000)).toEqual([
      '1 fail-overs that took longer than is promised: kill controller o 20000 ms, allowed 18000',
    ])
  })

  it('counts from the start of one that started later, and says nothing where something else was done', () => {
    expect(wrong(goneOnAfter(40_000, { startedAt: new Map([[2, 6000]]) }))).toEqual([])
    const faults = [kill, fault('etcd restart', 2000, 3000, 'all')]
    expect(judgeFleet(goneOnAfter(40_000, { faults })).failOvers).toMatchObject([{ alone: false }])
    expect(wrong(goneOnAfter(40_000, { faults }))).toEqual([])
  })

  it('may take as long as other faults follow each other, and no longer than it is promised without one', () => {
    const faults = [
      kill,
      fault('etcd restart', 20_000, 21_000, 'all'),
      { ...fault('cut', 50_000, 51_000, [2]), readyAt: 60_000 },
    ]
    expect(wrong(goneOnAfter(97_000, { faults }))).toEqual([])
    expect(wrong(goneOnAfter(99_500, { faults }))).toEqual([
      '1 fail-overs that took longer than is promised: kill controller o 40500 ms, allowed 39000',
    ])
  })

  it('of an orderly end is shorter than a Lease, but for a few', () => {
    const roll = (from: number, ms: number) => {
      const receptions = `a+1@${from}-${from + 1} b+2@${from + 1 + ms}-${from + 2 + ms}`
      const one = { ...fault('roll controllers', from, from + 1, [1]), blows: [{ life: 1, at: from + 1 }] }
      return { receptions, one }
    }
    const rolls = (slow: number) => {
      const all = Array.from({ length: 9 }, (_, n) => roll(100_000 * n, n < slow ? 15_000 : 1000))
      const verdict = judgeFleet(
        evidence('ab', all.map(({ receptions }) => receptions).join(' '), {
          faults: all.map(({ one }) => one),
        }),
      )
      return fleetViolations({ ...verdict, waits: [] }, PROMISED)
    }
    expect(rolls(4)).toEqual([])
    expect(rolls(5)).toEqual(['1 orderly ends that take as long as a Lease: 15000 ms, half of 9'])
  })

  it('allows more for the work where the machine had more to do than such a fleet gives it', () => {
    const busy = (load: number, at: number) => wrong(goneOnAfter(40_000, { loads: [{ at, load }] }))
    expect(busy(8, 20_000)).not.toEqual([])
    expect(busy(24, 20_000)).toEqual([])
    expect(busy(24, 500)).not.toEqual([])
  })

  it('is none where the same process goes on, or another one had driven the endpoint', () => {
    const same = evidence('ab', 'a+1@900-910 b+1@9000-9010 ', { faults: [kill] })
    expect(judgeFleet(same).failOvers).toEqual([])
    const others = evidence('ab', 'a+2@900-910 b+2@9000-9010 ', { faults: [kill] })
    expect(judgeFleet(others).failOvers).toEqual([])
  })
})
