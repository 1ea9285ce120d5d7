import { expect, test } from 'vitest'
import type { BenchResult } from './report.ts'
import { publishingResult, replicasResult, tlsResult } from './rest-load-samples.ts'
import { resultFiles, sectionFiles } from './result-files.ts'
import { parsePlan } from './settings.ts'

const MEASURED = { restPublishing: publishingResult, restTls: tlsResult, restReplicas: replicasResult }

/** Of a run with these arguments that has measured these sections. */
function resultOf(args: readonly string[], measured: Partial<BenchResult> = MEASURED): BenchResult {
  const plan = parsePlan(args)
  const about = { machine: '2 cores' }
  return { name: plan.name, measuredAt: '2026-01-31T12:00:00.000Z', commit: 'abc', about, plan, ...measured }
}

const ALL = 'rest-publishing,rest-tls,rest-replicas'

test.for([
  { name: 'several sections', args: ['--only', ALL], want: ALL.split(',') },
  {
    name: 'the quick form',
    args: ['--quick', '--only', ALL],
    want: ALL.split(',').map((one) => `${one}-quick`),
  },
  { name: 'a run with a name', args: ['--only', ALL, '--name', 'before'], want: ['before'] },
  { name: 'a full run', args: [], want: ['full', ...ALL.split(',')] },
  {
    name: 'a section of another kind',
    args: ['--only', 'saturation,rest-tls'],
    measured: { restTls: tlsResult },
    want: ['saturation-rest-tls', 'rest-tls'],
  },
  { name: 'only sections of other kinds', args: ['--only', 'log'], measured: {}, want: ['log'] },
])('$name: the files are $want', ({ args, measured, want }) => {
  expect(resultFiles(resultOf(args, measured)).map(({ name }) => name)).toEqual(want)
})

test('a file of a section says what it is, and has nothing of the others', () => {
  const [, tls] = resultFiles(resultOf(['--only', ALL]))
  expect(tls?.result).toMatchObject({
    name: 'rest-tls',
    plan: { sections: ['rest-tls'] },
    restTls: tlsResult,
  })
  expect(tls?.result).not.toHaveProperty('restPublishing')
  expect(tls?.result).not.toHaveProperty('restReplicas')
})

test('a run that ended early has the files of what it has measured', () => {
  const result = resultOf(['--only', ALL], { restPublishing: publishingResult })
  expect(sectionFiles(result).map(({ name }) => name)).toEqual(['rest-publishing'])
})
