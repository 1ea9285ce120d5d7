/**
 * Controllers, each on a separate control plane, that are repeatedly killed with `kill -9`: under load, while reading back, and
 * without their store.
 */

import { report } from '../../bench/progress.ts'
import type { Findings } from '../../chaos/findings.ts'
import { playKills } from '../../chaos/kill-run.ts'
import { type Figures, rounded } from '../figures.ts'

const KILLS = 1000
/** Each has a separate control plane, and mostly waits for a start. */
const AT_A_TIME = 2

export async function killsOf(seed: number): Promise<Figures> {
  const runs = await Promise.all(
    Array.from({ length: AT_A_TIME }, (_, n) =>
      playKills({ seed: seed + n, kills: KILLS / AT_A_TIME, say: (line) => report(`${n + 1}: ${line}`) }),
    ),
  )
  for (const words of runs.flatMap(({ wrong }) => wrong)) report(words)
  return figuresOf(runs)
}

function figuresOf(runs: readonly Findings[]): Figures {
  const sum = (count: (run: Findings) => number) => runs.reduce((all, run) => all + count(run), 0)
  const most = (all: number[]) => Math.max(0, ...all)
  const lives = runs.flatMap(({ deaths }) => deaths.map(({ life }) => life))
  const during = (kind: string) => lives.filter(({ trouble }) => trouble?.kind === kind).length
  const again = runs.flatMap(repeatsOfEach)
  return {
    kills: lives.length,
    'while it read back': lives.filter(({ killed }) => killed === 'start').length,
    'beside an outage of the API server': during('outage'),
    'beside a compaction': during('compaction'),
    'events accepted': sum(({ events }) => events),
    'deliveries accepted': sum(({ verdict }) => verdict.accepted),
    lost: sum(({ verdict }) => verdict.lost.length),
    'received again, a kill': rounded(again.reduce((all, one) => all + one, 0) / lives.length),
    'received again, most of one kill': most(again),
    'longest from an answer to the kill that kept it from being stored, ms': Math.round(
      most(runs.flatMap(({ unstoredForMs }) => unstoredForMs)),
    ),
    'received again, without a kill': sum(
      ({ verdict }) => verdict.duplicates.filter(({ explained }) => !explained).length,
    ),
    'out of order': sum(({ verdict }) => verdict.inversions.length + verdict.gaps.length),
    'attempted more than eight times': sum(({ verdict }) => verdict.beyond.length),
    'promises broken': sum(({ wrong }) => wrong.length),
  }
}

/** How many deliveries each kill repeated. */
function repeatsOfEach({ deaths, verdict }: Findings): number[] {
  const explained = verdict.duplicates.filter((one) => one.explained)
  return deaths.map(({ run }) => explained.filter((one) => one.run === run).length)
}
