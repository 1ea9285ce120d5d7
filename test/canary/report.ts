/** Formats the results of a run. */
import type { CanaryRun } from './canary-run.ts'
import { PLACES } from './evidence.ts'
import type { Findings } from './findings.ts'

const MOST_SHOWN = 20
const LONGEST = 300

export function reportOf(
  { book, stored, missed, credentials, faults, kills }: CanaryRun,
  findings: Findings,
): string {
  const { leaks, looked, seconds } = findings
  const secrets = book.all('kubectl').length + book.all('rest').length
  const lines = [
    `secrets            ${secrets}, of ${credentials.kubectl} credentials by kubectl and ${credentials.rest} by REST, refused ones among them`,
    `stored             ${stored.kubectl} by kubectl, ${stored.rest} by REST`,
    ...missed.map((one) => `not stored         ${one}`),
    `faults of AWS      ${faults}`,
    `processes killed   ${kills}`,
    `looked through in  ${seconds.toFixed(1)} s`,
    '',
    ...PLACES.map((place) => {
      const bytes = `${((looked.get(place) ?? 0) / 2 ** 20).toFixed(1)} MiB`
      const found = leaks.filter((leak) => leak.place === place).length
      return `${place.padEnd(32)} ${bytes.padStart(11)} ${String(found).padStart(6)} found`
    }),
    '',
    ...leaks
      .slice(0, MOST_SHOWN)
      .map(({ place, way, form, around }) => `${place}, ${way}, ${form}: ${around.slice(0, LONGEST)}`),
  ]
  return lines.join('\n')
}
