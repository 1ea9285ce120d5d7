import { expect, test } from 'vitest'
import type { FaultRecord } from './fault-work.ts'
import { lapsesWithout } from './lapse-watch.ts'

function record(
  kind: FaultRecord['kind'],
  from: number,
  to: number,
  lives: FaultRecord['lives'],
): FaultRecord {
  return { kind, from, to, readyAt: to, lives, blows: [] }
}

const LAPSE = record('lapse', 50_000, 52_000, [2])

test.for([
  ['a cut of that process', record('cut', 49_000, 51_000, [2]), 0],
  ['one whose effect was still there', record('cut', 40_000, 48_500, [2]), 0],
  ['what was done to the store', record('etcd restart', 49_000, 51_000, 'all'), 0],
  ['a cut of another process', record('cut', 49_000, 51_000, [3]), 1],
  ['a cut long before', record('cut', 10_000, 20_000, [2]), 1],
  [
    'a roll that it was part of, which explains nothing',
    record('roll controllers', 10_000, 110_000, [1, 2, 3]),
    1,
  ],
] as const)('a lapse, and %s', ([, fault, count]) => {
  expect(lapsesWithout([LAPSE], [fault], 2000)).toHaveLength(count)
})
