import { expect, test } from 'vitest'
import { evidence, fault, wrong } from './made-evidence.ts'

const RENEWALS = new Map([[1, [1000, 30_000]]])
const SENT_LATE = [
  '1 attempts by a controller whose Lease had ended: o a by life 1 10000 ms after its last renewal',
]

test.for([
  ['within the Lease', 'a+1@9000-9010', {}, []],
  ['after its end', 'a+1@11000-11010', {}, SENT_LATE],
  ['after a renewal that came later', 'a+1@31000-31010', {}, []],
  [
    'after its end, when nobody looked at Leases soon after',
    'a+1@11000-11010',
    { looks: [10_500, 13_000] },
    [],
  ],
  ['by a life of which no renewal is known', 'a+2@11000-11010', {}, []],
  ['after its end, seen late', 'a+1@11000-11010', { stalls: [{ from: 9000, to: 10_990 }] }, []],
  [
    'by a process whose clock was set',
    'a+1@11000-11010',
    { faults: [fault('clock step', 900, 5000, [1])] },
    [],
  ],
  [
    'while the clock of another one was set',
    'a+1@11000-11010',
    { faults: [fault('clock step', 900, 5000, [2])] },
    SENT_LATE,
  ],
] as const)('what is sent %s', ([, receptions, more, complaints]) => {
  expect(wrong(evidence('a', receptions, { renewals: RENEWALS, ...more }))).toEqual(complaints)
})
