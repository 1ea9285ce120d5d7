/** A real Prometheus reads the real processes, and follows the rules that ship. */
import { spawnSync } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { QUESTION_ROWS } from '../../../tools/docgen/dashboard/question-rows.ts'
import { until } from '../../support/until.ts'
import { readAlerts } from '../alert-rules.ts'
import { type MonitoringBed, startBed } from '../bed/bed.ts'
import { allExpressions, asked, metricsIn, metricsOfScrape } from '../metric-names.ts'

let bed: MonitoringBed
const exported = new Set<string>()

beforeAll(async () => {
  bed = await startBed(readAlerts())
  bed.receiver.answer('/broken', { status: 500 })
  await bed.endpoint('well', `${bed.receiver.url}/well`)
  await bed.endpoint('broken', `${bed.receiver.url}/broken`)
  for (const { process } of bed.members) {
    const response = await fetch(process.metricsUrl)
    for (const name of metricsOfScrape(await response.text())) exported.add(name)
  }
}, 120_000)

afterAll(() => bed?.stop())

test('promtool finds nothing wrong with the metrics of any process', async () => {
  for (const { process } of bed.members) {
    const metrics = await (await fetch(process.metricsUrl)).text()
    const { status, stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
      input: metrics,
      encoding: 'utf8',
    })
    expect({ status, stdout, stderr }).toEqual({ status: 0, stdout: '', stderr: '' })
  }
})

test.each(allExpressions())('the real processes have every metric of %s', (_, expr) => {
  const names = metricsIn(expr)
  expect(names.length).toBeGreaterThan(0)
  expect(names.filter((name) => !exported.has(name))).toEqual([])
})

test.each(allExpressions())('Prometheus understands the expression of %s', async (_, expr) => {
  await bed.prometheus.query(asked(expr))
})

describe('while events are delivered', () => {
  const panels = QUESTION_ROWS.flatMap((row) => row.panels)

  test.each(panels.map((panel) => [panel.title, panel] as const))(
    'there are figures for %s',
    async (_, panel) => {
      const answered = async () => {
        await bed.publish({ n: 1 })
        await sleep(100)
        const found = await Promise.all(panel.queries.map(({ expr }) => bed.prometheus.query(asked(expr))))
        return found.every((series) => series.length > 0) || undefined
      }
      await until(answered, () => `no figures for ${panel.title}`)
    },
  )

  test('an endpoint that fails is named by its own labels, beside those of its process', async () => {
    const failing = async () => {
      const [found] = await bed.prometheus.query('davit_endpoint_failing_seconds')
      return found?.metric
    }
    const labels = await until(failing, () => 'no endpoint fails')
    expect(labels).toMatchObject({ organization: 'acme', endpoint_name: 'broken', result: '5xx' })
    expect(labels).toMatchObject({ namespace: 'davit-system', endpoint: 'ops' })
    expect(Object.keys(labels).filter((name) => name.startsWith('exported_'))).toEqual([])
  })

  test('the replicas work on all shards together', async () => {
    const [sum] = await bed.prometheus.query('sum(davit_shards_owned)')
    expect(sum?.value?.[1]).toBe('256')
  })

  test('no alert fires', async () => {
    expect([...(await bed.prometheus.firing())]).toEqual([])
  })
})
