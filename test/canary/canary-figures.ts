/** The figures of a run for test/reports/guarantees.md. */
import type { Figures } from '../hostile/figures.ts'
import type { CanaryRun } from './canary-run.ts'
import type { Findings } from './findings.ts'

export function canaryFiguresOf({ book, kills, faults }: CanaryRun, { leaks, looked }: Findings): Figures {
  const bytes = [...looked.values()]
  return {
    secrets: book.all('kubectl').length + book.all('rest').length,
    'processes killed': kills,
    'faults of AWS': faults,
    'places looked through': bytes.filter((one) => one > 0).length,
    'MiB looked through': Math.round(bytes.reduce((sum, one) => sum + one, 0) / 2 ** 20),
    'found in any form': leaks.length,
  }
}
