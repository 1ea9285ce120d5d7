import { describe, expect, it } from 'vitest'
import type { FaultRecord } from './fault-work.ts'
import { type FleetEvidence, judgeFleet } from './fleet-verdict.ts'
import { fleetViolations } from './fleet-violations.ts'
import { gapsOf } from './gaps.ts'
import { bodyOf, evidence, fault, PROMISED, received, wrong } from './made-evidence.ts'

describe('the verdict on a fleet', () => {
  it.each([
    { what: 'all in order', accepted: 'ab', receptions: 'a+1@100-110 b+1@120-130', want: [] },
    {
      what: 'retries of the head on the schedule',
      accepted: 'ab',
      receptions: 'a-1@100-110 a+1@290-300 b+1@310-320',
      want: [],
    },
    {
      what: 'a delivery that never came',
      accepted: 'ab',
      receptions: 'a+1@100-110',
      want: ['1 lost: o b'],
    },
    {
      what: 'one that came again from the same process',
      accepted: 'a',
      receptions: 'a+1@100-110 a+1@400-410',
      want: ['1 received twice without a crash between: o a'],
    },
    {
      what: 'one that came again from another process, for no reason',
      accepted: 'a',
      receptions: 'a+1@100-110 a+2@400-410',
      want: ['1 received twice without a crash between: o a'],
    },
    {
      what: 'one that overtook',
      accepted: 'ab',
      receptions: 'b+1@100-110 a+1@120-130',
      want: ['1 out of order: o a', '1 begun before the one before it had ended: o b'],
    },
    {
      what: 'two at a time',
      accepted: 'ab',
      receptions: 'a+1@100-200 b+2@150-160',
      want: ['1 attempts of an ordered endpoint at a time: o a and b for 50 ms'],
    },
    {
      what: 'a retry that came too soon',
      accepted: 'a',
      receptions: 'a-1@100-110 a+1@150-160',
      want: ['1 waits outside the schedule: o 40 ms before attempt 2, allowed 170 to 170'],
    },
    {
      what: 'a retry that came too late',
      accepted: 'a',
      receptions: 'a-1@100-110 a+1@30200-30210',
      want: ['1 waits outside the schedule: o 30090 ms before attempt 2, allowed 170 to 170'],
    },
    {
      what: 'a ninth attempt',
      accepted: 'a',
      receptions: Array.from({ length: 9 }, (_, n) => `a-1@${n * 180}-${n * 180 + 1}`).join(' '),
      want: ['1 attempted too often: o a'],
    },
    {
      what: 'what nobody accepted',
      accepted: '',
      receptions: 'x+1@1-2',
      want: ['1 received but never accepted: o x'],
    },
  ])('on $what', ({ accepted, receptions, want }) => {
    expect(wrong(evidence(accepted, receptions))).toEqual(want)
  })

  it('complains of what was acknowledged while there was no store', () => {
    const away = { from: 1000, to: 5000 }
    const restart = { ...fault('API server restart', 900, 5100, 'all'), away }
    const given = evidence('a', 'a+1@100-110', { faults: [restart] })
    const at = (begunAt: number, answeredAt: number) =>
      wrong({ ...given, published: given.published.map((one) => ({ ...one, begunAt, answeredAt })) })
    expect(at(2000, 5050)).toEqual([])
    expect(at(950, 1100)).toEqual([])
    expect(at(2000, 3000)).toEqual([
      '1 events that were acknowledged while there was no store: event 97 of acme',
    ])
  })

  it('counts nothing of an endpoint that was deleted as accepted', () => {
    const given = evidence('ab', 'a+1@100-110', { deleted: new Set(['o']) })
    expect(judgeFleet(given)).toMatchObject({ accepted: 0, lost: [] })
  })

  it.each([
    { what: 'a kill of the process', by: fault('kill controller', 120, 300, [1]), isOne: true },
    { what: 'a process that stood still', by: fault('suspend controller', 105, 300, [1]), isOne: true },
    { what: 'an API server that was away', by: fault('API server restart', 50, 300, 'all'), isOne: true },
    { what: 'a kill of another process', by: fault('kill controller', 120, 300, [7]), isOne: false },
    { what: 'a kill long afterwards', by: fault('kill controller', 9000, 9100, [1]), isOne: false },
    { what: 'a kill that came after the repeat', by: fault('kill controller', 500, 600, [1]), isOne: false },
    { what: 'an orderly end', by: fault('roll controllers', 120, 300, [1, 2]), isOne: false },
  ])('takes $what for a reason to send again: $isOne', ({ by, isOne }) => {
    const given = evidence('a', 'a+1@100-110 a+2@400-410', { faults: [by] })
    expect(wrong(given).length === 0).toBe(isOne)
    expect(judgeFleet(given).repeatsByFault.get(by)?.length).toBe(isOne ? 1 : undefined)
  })

  it('takes a process that stood still, also by its clock, and nothing else, for a reason to repeat itself', () => {
    const during = (kind: FaultRecord['kind']) =>
      wrong(evidence('a', 'a+1@100-110 a+1@30000-30010', { faults: [fault(kind, 105, 29_000, [1])] }))
    expect(during('suspend controller')).toEqual([])
    expect(during('clock step')).toEqual([])
    expect(during('cut')).toEqual(['1 received twice without a crash between: o a'])
  })

  it('excuses no fault that brought more repeats than outcomes may wait', () => {
    const kill = fault('kill controller', 120, 300, [1])
    const verdict = judgeFleet(evidence('a', 'a+1@100-110', { faults: [kill] }))
    const complaintsAt = (count: number) => {
      const repeatsByFault = new Map([[kill, new Array<number>(count).fill(5)]])
      return fleetViolations({ ...verdict, repeatsByFault }, PROMISED)
    }
    expect(complaintsAt(1000)).toEqual([])
    expect(complaintsAt(1001)).toEqual([
      '1 faults that brought more repeats than outcomes may wait: kill controller 1001, allowed 1000',
    ])
  })

  it('takes a clock that was set ahead for a reason to repeat what could not be stored until then, and nothing else', () => {
    const step = fault('clock step', 9000, 29_000, [1])
    const again = (...faults: FaultRecord[]) =>
      wrong(evidence('a', 'a+1@100-110 a+1@30000-30010', { faults: [step, ...faults] }))
    const COUNTED = ['1 received twice without a crash between: o a']
    expect(again()).toEqual(COUNTED)
    expect(again(fault('cut', 50, 12_000, [1]))).toEqual([])
    expect(again(fault('cut', 50, 2000, [1]))).toEqual(COUNTED)
    const restarted = fault('etcd restart', 20, 90, 'all')
    expect(again(restarted, fault('no space in etcd', 90, 6000, 'all'))).toEqual([])
    expect(again(restarted, fault('no space in etcd', 90, 2000, 'all'))).toEqual(COUNTED)
    expect(again(fault('cut', 50, 12_000, [2]))).toEqual(COUNTED)
  })

  it('takes a process whose Lease was not renewed for long for one that begins anew, where something was done to it', () => {
    const again = (silences: FleetEvidence['silences'], faults: FaultRecord[]) =>
      wrong(evidence('a', 'a+1@100-110 a+1@40000-40010', { faults, silences }))
    const cut = fault('cut', 105, 29_000, [1])
    const silence = { life: 1, from: 90, to: 36_000 }
    const COUNTED = ['1 received twice without a crash between: o a']
    expect(again([silence], [cut])).toEqual([])
    expect(again([{ ...silence, life: 2 }], [cut])).toEqual(COUNTED)
    expect(again([{ ...silence, from: 40_020, to: 80_000 }], [cut])).toEqual(COUNTED)
    expect(again([silence], [])).toEqual(COUNTED)
  })

  it('takes what is stored as exhausted for ended, although not every attempt was received', () => {
    const given = evidence('ab', 'a-1@100-110 b+1@120-130', { exhausted: new Set(['o a']) })
    expect(wrong(given)).toEqual([])
  })

  it('lets a retry wait for a slot for as long as an attempt may last, and for nothing else', () => {
    const waiting = evidence('a', 'a-1@100-110 a+1@8000-8010')
    const [first, last] = waiting.receptions
    const [hangs] = received('o', 'b-1@50-7900')
    expect(wrong(waiting)).toEqual([
      '1 waits outside the schedule: o 7890 ms before attempt 2, allowed 170 to 170',
    ])
    const crowded = judgeFleet({ ...waiting, receptions: [hangs, first, last].flatMap((one) => one ?? []) })
    expect(crowded.waits).toEqual([])
    expect(crowded.latestWaitMs).toBe(0)
    expect(wrong(evidence('a', 'a-1@100-110 a+2@8000-8010'))).toEqual([])
    expect(judgeFleet(evidence('a', 'a-1@100-110 a+1@1300-1310')).latestWaitMs).toBe(1020)
  })

  it('says nothing of a wait of which it saw the beginning late', () => {
    const given = evidence('a', 'a-1@100-110 a+1@150-160')
    expect(wrong({ ...given, stalls: [{ from: 60, to: 100 }] })).toEqual([])
    expect(wrong({ ...given, stalls: [{ from: 160, to: 260 }] })).not.toEqual([])
    expect(judgeFleet(given).waitsCompared).toBe(1)
  })

  it('lets a retry be late where something was done meanwhile, and too soon only after what nobody knows, or by a clock', () => {
    const late = (by: FaultRecord) => wrong(evidence('a', 'a-1@100-110 a+1@30200-30210', { faults: [by] }))
    expect(late(fault('cut', 10_000, 10_100, [1]))).toEqual([])
    const soon = (by: FaultRecord) => wrong(evidence('a', 'a-1@100-110 a+1@150-160', { faults: [by] }))
    expect(soon(fault('roll REST servers', 120, 130, [9]))).not.toEqual([])
    expect(soon(fault('kill controller', 120, 130, [1]))).toEqual([])
    expect(soon(fault('clock step', 120, 130, [9]))).toEqual([])
  })

  it('finds what came after a disabling was acknowledged', () => {
    const pauses = new Map([['p', [{ asked: 900, from: 1000, to: 5000, over: 5100 }]]])
    const log = { deliveries: [{ endpoint: 'p', id: 'a' }], events: [] }
    const during = (at: number) =>
      evidence('', '', { log, pauses, receptions: received('p', `a+1@${at}-${at + 5}`) })
    expect(wrong(during(3500))).toEqual(['1 attempts after an acknowledged disabling: 2500 ms'])
    expect(wrong(during(1100))).toEqual([])
    expect(judgeFleet(during(1100)).late).toEqual([100])
    expect(judgeFleet(during(950)).late).toEqual([])
    const deleted = { ...during(3500), deleted: new Set(['p']) }
    expect(wrong(deleted)).toEqual(['1 attempts after a deletion: 2500 ms'])
    expect(wrong({ ...deleted, unsure: new Set(['p']) })).toEqual([])
  })

  it('finds a publish that became two events, one that is nowhere, and one that was answered under another id', () => {
    const given = evidence('ab', 'a+1@100-110 b+1@120-130')
    const { events } = given.log
    const twice = { ...given.log, events: events.map((event) => ({ ...event, body: bodyOf('a') })) }
    const found = wrong({ ...given, log: twice, receptions: [], exhausted: new Set(['o a', 'o b']) })
    expect(found).toContain('1 keyed publishes that became two events: event 97')
    expect(found).toContain('1 acknowledged events that are not in the log: event 98 of acme')
    const other = given.published.map((one) => ({ ...one, id: 'z' }))
    expect(wrong({ ...given, published: other })).toContain(
      '2 answers that are not what is in the log: event 97 of acme, event 98 of acme',
    )
  })

  it('finds a body that was changed', () => {
    const given = evidence('a', 'a+1@100-110')
    const receptions = given.receptions.map((one) => ({ ...one, body: '{}' }))
    expect(wrong({ ...given, receptions })).toEqual(['1 bodies that are not what was accepted: o a'])
  })

  it('finds an event that misses a subscriber, or that went to one that was disabled all the time', () => {
    const given = evidence('a', '')
    const log = { ...given.log, deliveries: [] }
    expect(wrong({ ...given, log })).toContain(
      '1 deliveries that a subscriber should have, or should not: o misses a of 0.000-0.000 s',
    )
    const [event] = given.log.events
    const toPaused = {
      events: event ? [{ ...event, type: 'u' }] : [],
      deliveries: [{ endpoint: 'p', id: 'a' }],
    }
    const pause = (from: number, to: number) =>
      new Map([['p', [{ asked: from - 1, from, to, over: to + 1 }]]])
    const all = { ...given, log: toPaused, receptions: received('p', 'a+1@900-901') }
    const paused = { ...all, pauses: pause(-50, 50) }
    expect(wrong(paused)).toEqual([
      '1 events that were matched as before an answered change: p has a of 0.000-0.000 s',
    ])
    expect(fleetViolations(judgeFleet(paused), { ...PROMISED, serversAgree: false })).toEqual([])
    expect(wrong({ ...all, pauses: pause(0, 50) })).toEqual([])
    expect(wrong({ ...all, pauses: pause(100, 150) })).toEqual([])
  })

  it('counts what would be noticed if it came again', () => {
    const faults = [fault('kill controller', 7000, 7100, [1])]
    const given = evidence('abc', 'a+1@100-110 b+1@6000-6010 c-2@6500-6510 c+2@6700-6710', { faults })
    expect(judgeFleet(given).taken).toEqual({ all: 3, watched: 2 })
  })

  it('measures how long a fault kept what was due from endpoints that are well', () => {
    const kill = fault('kill controller', 1000, 1500, [1])
    const given = evidence('ab', 'a+1@100-110 b+2@1700-1710', { faults: [kill] })
    expect(gapsOf(given)).toEqual([{ kind: 'kill controller', ms: 700, alone: true }])
  })
})
