/** One controller that is killed with `kill -9`, again and again: under load, while it reads back, and without its store. */

import { report } from '../../bench/progress.ts'
import type { Findings } from '../../chaos/findings.ts'
import { playKills } from '../../chaos/kill-run.ts'
import { type Figures, rounded } from '../figures.ts'

const KILLS = 1000

export async function killsOf(seed: number): Promise<Figures> {
  const findings = await playKills({ seed, kills: KILLS, say: report })
  for (const words of findings.wrong) report(words)
  return figuresOf(findings)
}

function figuresOf({ deaths, verdict, events, unstoredForMs, wrong }: Findings): Figures {
  const explained = verdict.duplicates.filter((one) => one.explained)
  const ofEach = deaths.map(({ run }) => explained.filter((one) => one.run === run).length)
  const during = (kind: string) => deaths.filter(({ life }) => life.trouble?.kind === kind).length
  return {
    kills: deaths.length,
    'while it read back': deaths.filter(({ life }) => life.killed === 'start').length,
    'beside an outage of the API server': during('outage'),
    'beside a compaction': during('compaction'),
    'events accepted': events,
    'deliveries accepted': verdict.accepted,
    lost: verdict.lost.length,
    'received again, a kill': rounded(explained.length / Math.max(1, deaths.length)),
    'received again, most of one kill': Math.max(0, ...ofEach),
    'longest from an answer to the kill that kept it from being stored, ms': Math.round(
      Math.max(0, ...unstoredForMs),
    ),
    'received again, without a kill': verdict.duplicates.length - explained.length,
    'out of order': verdict.inversions.length + verdict.gaps.length,
    'attempted more than eight times': verdict.beyond.length,
    'promises broken': wrong.length,
  }
}
