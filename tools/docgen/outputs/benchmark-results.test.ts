import { expect, test } from 'vitest'
import { publishingResult, replicasResult, tlsResult } from '../../../test/bench/rest-load-samples.ts'
import { benchmarkResults } from './benchmark-results.ts'

const PAGE = 'docs/contributing/benchmark.md'
const PLACE = `Before.

<!-- results of rest-publishing, rest-tls and rest-replicas: npm run generate -->
<!-- end of results -->

After.
`

function pageWith(files: Readonly<Record<string, object>>): string {
  const texts = new Map(
    Object.entries(files).map(([name, file]) => [`bench/results/${name}.json`, JSON.stringify(file)]),
  )
  const [page] = benchmarkResults.files((path) => (path === PAGE ? PLACE : texts.get(path)))
  return page?.content ?? ''
}

const MEASURED = {
  measuredAt: '2026-01-31T12:00:00.000Z',
  about: { machine: '2 cores of a kind, 24 GiB, Linux 6.0-a-host' },
}

const ALL = {
  'rest-publishing': { ...MEASURED, restPublishing: publishingResult },
  'rest-tls': { ...MEASURED, restTls: tlsResult },
  'rest-replicas': { ...MEASURED, restReplicas: replicasResult },
}

test.for([
  [[], 'To get these results, run `npm run bench -- --only rest-publishing,rest-tls,rest-replicas`.'],
  [['rest-tls'], 'To get the other results, run `npm run bench -- --only rest-publishing,rest-replicas`.'],
  [['rest-publishing', 'rest-tls'], 'To get the other results, run `npm run bench -- --only rest-replicas`.'],
  [['rest-publishing', 'rest-tls', 'rest-replicas'], undefined],
] as const)('with the results of %j, one sentence has the command for the others', ([names, sentence]) => {
  const page = pageWith(Object.fromEntries(names.map((name) => [name, ALL[name]])))
  expect(page).toMatch(/^Before\.[\s\S]*After\.\n$/)
  expect(page.match(/^### /gm) ?? []).toHaveLength(names.length)
  expect(page.match(/^To get .*$/gm)).toEqual(sentence === undefined ? null : [sentence])
})

test.for([
  ['rest-publishing', { restPublishing: publishingResult }, '| 32 clients | 2000 | 0.44 | 10.0 | 40.0 |'],
  ['rest-tls', { restTls: tlsResult }, '| 32 clients, ratio | 0.80 |'],
  ['rest-replicas', { restReplicas: replicasResult }, '| 32 clients, 3 | 2000 |'],
] as const)(
  'the results of %s are on the page, with their day and no more of the machine',
  ([name, section, want]) => {
    const page = pageWith({ [name]: { ...MEASURED, ...section } })
    expect(page).toContain(want)
    expect(page).toContain(`Measured with \`npm run bench -- --only ${name}\` on 2026-01-31.`)
    expect(page).toContain('Machine: 2 cores of a kind, 24 GiB. Versions: node v24.21.0.')
    expect(page).not.toContain('a-host')
  },
)

test('a file in another form is rejected', () => {
  expect(() => pageWith({ 'rest-tls': { ...MEASURED, restTls: { rounds: 1 } } })).toThrow()
})

test('a page without a place for results is rejected', () => {
  expect(() => benchmarkResults.files((path) => (path === PAGE ? 'A page.' : undefined))).toThrow(
    'must contain the section',
  )
})
