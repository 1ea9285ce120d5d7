import { describe, expect, it } from 'vitest'
import type { FaultRecord } from './fault-work.ts'
import { type FleetEvidence, judgeFleet } from './fleet-verdict.ts'
import { evidence, fault, wrong } from './made-evidence.ts'

describe('what a killed process had had time to store', () => {
  const kill = fault('kill controller', 1500, 4000, [1])
  const again = (faults: FaultRecord[], more: Partial<FleetEvidence> = {}) =>
    wrong(evidence('a', 'a+1@100-110 a+2@9000-9010', { faults: [kill, ...faults], ...more }))
  const FOUND = ['1 repeats of what there was time to store: o a by kill controller 1390 ms after its answer']

  it('must not come again', () => {
    expect(again([])).toEqual(FOUND)
    expect(again([fault('cut', 200, 1400, [2])])).toEqual(FOUND)
  })

  it('may, where something kept that process from the store, or the machine was busy', () => {
    expect(again([fault('cut', 200, 1400, [1])])).toEqual([])
    expect(again([fault('etcd restart', 200, 400, 'all')])).toEqual([])
    expect(again([], { loads: [{ at: 800, load: 16 }] })).toEqual([])
  })

  it('is not what was answered within the last second before', () => {
    const late = evidence('a', 'a+1@900-910 a+2@9000-9010', { faults: [kill] })
    expect(wrong(late)).toEqual([])
  })
})

describe('a request that died with a used connection', () => {
  it('counts with the next one as one attempt', () => {
    const given = evidence('a', 'a-1@100-110 a+1@112-120')
    const [first, ...others] = given.receptions
    const stale = first ? [{ ...first, isStale: true as const }, ...others] : []
    expect(wrong({ ...given, receptions: stale })).toEqual([])
    expect(wrong(given)).not.toEqual([])
  })

  it('does so as well where the new connection took long, if it brought the same signature', () => {
    const failed = Array.from({ length: 9 }, (_, n) => `a-1@${n * 2000}-${n * 2000 + 10}`)
    const given = evidence('a', failed.join(' '))
    const beyond = (last: string) => {
      const receptions = given.receptions.map((one, n) => {
        if (n === 7) return { ...one, isStale: true as const, signature: 'v1,same' }
        return n === 8 ? { ...one, signature: last } : one
      })
      return judgeFleet({ ...given, receptions }).beyond.length
    }
    expect([beyond('v1,same'), beyond('v1,other')]).toEqual([0, 1])
  })

  it('counts as none where it was then left to another process', () => {
    const failed = Array.from({ length: 8 }, (_, n) => `a-1@${n * 1000}-${n * 1000 + 10}`)
    const given = evidence('a', `${failed.join(' ')} a+2@20000-20010`, { faults: [] })
    const receptions = given.receptions.map((one, n) => (n === 7 ? { ...one, isStale: true as const } : one))
    expect(judgeFleet(given).beyond).toHaveLength(1)
    expect(judgeFleet({ ...given, receptions }).beyond).toEqual([])
  })
})
