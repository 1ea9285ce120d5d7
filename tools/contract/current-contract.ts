/** The contract that the source makes: everything that users outside of this repository may rely on. */
import { PROBLEMS } from '../../src/server/http/problems.ts'
import type { Contract } from './compare.ts'
import { chartValueLines, crdLines, openApiLines } from './documents.ts'
import { flatten } from './flatten.ts'
import { logEventLines } from './log-events.ts'
import { logLines } from './log-text.ts'
import { metricLines } from './metrics.ts'
import { groupNames } from './names.ts'
import { reasonLines } from './reasons.ts'
import { renderedChart } from './rendered-chart.ts'
import { settingLines } from './settings.ts'
import { sourceFiles } from './source-files.ts'

/** The lines are sorted, so that file differences contain only real changes. */
export async function currentContract(): Promise<Contract> {
  const sources = sourceFiles()
  const parts: [string, string[]][] = [
    ['chart-values.txt', chartValueLines()],
    ['crds.txt', crdLines()],
    ['log-events.txt', logEventLines(sources)],
    ['log.txt', logLines()],
    ['metrics.txt', await metricLines(sources)],
    ['names.txt', groupNames(sources)],
    ['openapi.txt', openApiLines()],
    ['problems.txt', flatten(PROBLEMS)],
    ['reasons.txt', reasonLines(sources)],
    ['settings.txt', settingLines(sources)],
    ...(await renderedChart()),
  ]
  return new Map(parts.map(([part, lines]) => [part, lines.toSorted()]))
}
