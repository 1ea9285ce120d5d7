import { expect, test } from 'vitest'
import { restLoadTables } from './report-rest-load.ts'
import { restLoadFile } from './rest-load-results.ts'
import { publishingResult, replicasResult, tlsResult } from './rest-load-samples.ts'

const ALL = { restPublishing: publishingResult, restTls: tlsResult, restReplicas: replicasResult }

test('there is a table for each section, and one for each profile', () => {
  expect(restLoadTables(ALL).map(({ title }) => title)).toEqual([
    'Publishing by REST with default settings (1 round, 10 s for each load)',
    'CPU per event (ms), by process',
    'REST server with 32 clients: functions with the longest self time, of 8.0 s of CPU',
    'Publishing by REST with and without TLS (1 round, 10 s for each load)',
    'Several REST servers at the same total load (1 round, 10 s for each load)',
  ])
})

test('every row is as long as its heading', () => {
  for (const { title, rows } of restLoadTables(ALL)) {
    const [head] = rows
    expect({ title, lengths: [...new Set(rows.map((row) => row.length))] }).toEqual({
      title,
      lengths: [head?.length],
    })
  }
})

test('a load has its rate, its share of the raw loop and its times', () => {
  const [speed, cpu] = restLoadTables({ restPublishing: publishingResult })
  expect(speed?.rows[1]).toEqual(['32 clients', '2000', '0.44', '10.0', '40.0', '8.0', '30.0', '0.05'])
  expect(cpu?.rows[1]).toEqual(['32 clients', '0.100', '0.200', '0.120', '0.040', '0.460'])
})

test('TLS has its ratio next to both', () => {
  const [table] = restLoadTables({ restTls: tlsResult })
  const find = (name: string) => table?.rows.find(([first]) => first === name)
  expect(find('32 clients, without TLS')?.[1]).toBe('2000')
  expect(find('32 clients, with TLS')?.[1]).toBe('1600')
  expect(find('32 clients, ratio')?.[1]).toBe('0.80')
})

test('the first REST server adds nothing, the others a figure', () => {
  const [table] = restLoadTables({ restReplicas: replicasResult })
  const added = table?.rows.slice(1, 4).map((row) => [row[0], row[5]])
  expect(added).toEqual([
    ['32 clients, 1', ''],
    ['32 clients, 2', '0.000'],
    ['32 clients, 3', '0.000'],
  ])
})

test.for(Object.entries(ALL))('a file with %s can be read again', ([key, section]) => {
  const file = { measuredAt: '2026-01-31T12:00:00.000Z', about: { machine: '2 cores' }, [key]: section }
  expect(restLoadFile.parse(JSON.parse(JSON.stringify(file)))).toEqual(file)
})

test('nothing measured has no tables', () => {
  expect(restLoadTables({})).toEqual([])
})
