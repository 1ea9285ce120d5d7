import { describe, expect, test } from 'vitest'
import { ATTEMPT_CLASSES } from '../lib/metrics.ts'
import { createMetrics } from './metrics.ts'

/** Lines of the scrape that are about `name`, without comments. */
async function linesOf(metrics: { render(): Promise<string> }, name: string): Promise<string[]> {
  const text = await metrics.render()
  return text.split('\n').filter((line) => line.startsWith(`${name}{`) || line.startsWith(`${name} `))
}

test('each fact feeds its metrics, with the documented names and labels', async () => {
  const metrics = createMetrics({ version: '1.2.3', role: 'controller' })
  metrics.attempt('2xx', 0.004)
  metrics.attempt('blocked', 0.001)
  metrics.finished('succeeded', 0.02)
  metrics.started(0.006)
  metrics.segment('delivery', 3, 0.01)
  metrics.segment('outcome', 300, 0.02)
  metrics.apiCall('create', '201', 0.003)
  metrics.apiCall('create', 'error', 10)
  metrics.cloudCall('ssm:PutParameter', 'ok', 0.02)
  metrics.cloudRetry('ssm:PutParameter', 'ThrottlingException')
  metrics.cloudTurn('ssm:PutParameter', 4)
  metrics.mailed('refused')
  metrics.reconciled('endpoint', 'done', 0.001)
  metrics.watchRestarted('webhookendpoints', 'Gone')
  const want: Record<string, string[]> = {
    davit_build_info: ['davit_build_info{version="1.2.3",role="controller"} 1'],
    davit_attempts_total: ATTEMPT_CLASSES.map(
      (result) => `davit_attempts_total{result="${result}"} ${Number(/2xx|blocked/.test(result))}`,
    ),
    davit_attempt_duration_seconds_count: ['davit_attempt_duration_seconds_count 2'],
    davit_deliveries_finished_total: [
      'davit_deliveries_finished_total{state="succeeded"} 1',
      'davit_deliveries_finished_total{state="exhausted"} 0',
      'davit_deliveries_finished_total{state="canceled"} 0',
    ],
    davit_delivery_completion_delay_seconds_sum: ['davit_delivery_completion_delay_seconds_sum 0.02'],
    davit_delivery_first_attempt_delay_seconds_sum: ['davit_delivery_first_attempt_delay_seconds_sum 0.006'],
    davit_segment_writes_total: [
      'davit_segment_writes_total{kind="delivery"} 1',
      'davit_segment_writes_total{kind="outcome"} 1',
    ],
    davit_segment_records_sum: [
      'davit_segment_records_sum{kind="delivery"} 3',
      'davit_segment_records_sum{kind="outcome"} 300',
    ],
    davit_segment_write_duration_seconds_sum: [
      'davit_segment_write_duration_seconds_sum{kind="delivery"} 0.01',
      'davit_segment_write_duration_seconds_sum{kind="outcome"} 0.02',
    ],
    davit_api_calls_total: [
      'davit_api_calls_total{verb="create",code="201"} 1',
      'davit_api_calls_total{verb="create",code="error"} 1',
    ],
    davit_api_call_duration_seconds_count: ['davit_api_call_duration_seconds_count{verb="create"} 2'],
    davit_cloud_calls_total: ['davit_cloud_calls_total{operation="ssm:PutParameter",code="ok"} 1'],
    davit_cloud_call_duration_seconds_sum: [
      'davit_cloud_call_duration_seconds_sum{operation="ssm:PutParameter"} 0.02',
    ],
    davit_cloud_retries_total: [
      'davit_cloud_retries_total{operation="ssm:PutParameter",code="ThrottlingException"} 1',
    ],
    davit_cloud_turn_wait_seconds_sum: ['davit_cloud_turn_wait_seconds_sum{operation="ssm:PutParameter"} 4'],
    davit_mails_total: [
      'davit_mails_total{result="mailed"} 0',
      'davit_mails_total{result="refused"} 1',
      'davit_mails_total{result="no_mail_server"} 0',
      'davit_mails_total{result="no_owners"} 0',
    ],
    davit_reconcile_total: ['davit_reconcile_total{controller="endpoint",result="done"} 1'],
    davit_reconcile_duration_seconds_count: [
      'davit_reconcile_duration_seconds_count{controller="endpoint"} 1',
    ],
    davit_watch_restarts_total: ['davit_watch_restarts_total{resource="webhookendpoints",reason="Gone"} 1'],
  }
  for (const [name, lines] of Object.entries(want)) expect(await linesOf(metrics, name)).toEqual(lines)
})

test('the process and its event loop are measured', async () => {
  const text = await createMetrics({ version: '0' }).render()
  expect(text).toMatch(/^process_resident_memory_bytes \d+/m)
  expect(text).toMatch(/^nodejs_eventloop_lag_p99_seconds /m)
})

test('two registries in one process share nothing', async () => {
  const [one, other] = [createMetrics({ version: '0' }), createMetrics({ version: '0' })]
  one.attempt('5xx', 1)
  expect(await linesOf(other, 'davit_attempts_total')).toContain('davit_attempts_total{result="5xx"} 0')
})

test('gauges are read at the scrape, and values that are gone do not stay', async () => {
  const metrics = createMetrics({ version: '0' })
  let pending = 3
  let depths: Record<string, number> = { endpoint: 1, event: 2 }
  metrics.gauge('davit_pending', 'Pending.', () => pending)
  metrics.gauge('davit_depth', 'Depth.', () => depths, 'controller')
  expect(await linesOf(metrics, 'davit_pending')).toEqual(['davit_pending 3'])
  pending = 5
  depths = { event: 7 }
  expect(await linesOf(metrics, 'davit_pending')).toEqual(['davit_pending 5'])
  expect(await linesOf(metrics, 'davit_depth')).toEqual(['davit_depth{controller="event"} 7'])
})

test('a gauge that cannot be read does not take the scrape with it', async () => {
  const metrics = createMetrics({ version: '0' })
  metrics.gauge('davit_bad', 'Bad.', () => {
    throw new Error('not yet')
  })
  metrics.gauge('davit_good', 'Good.', () => 1)
  expect(await linesOf(metrics, 'davit_bad')).toEqual([expect.stringMatching(/^davit_bad nan$/i)])
  expect(await linesOf(metrics, 'davit_good')).toEqual(['davit_good 1'])
})

test('rows of a gauge are those of now, at most a hundred, and none where they cannot be read', async () => {
  const metrics = createMetrics({ version: '0' })
  let read = () => [{ labels: ['acme', 'billing'], value: 3 }]
  metrics.gaugeRows('davit_rows', 'Rows.', ['organization', 'endpoint_name'], () => read())
  expect(await linesOf(metrics, 'davit_rows')).toEqual([
    'davit_rows{organization="acme",endpoint_name="billing"} 3',
  ])
  read = () => Array.from({ length: 250 }, (_, i) => ({ labels: ['acme', `e${i}`], value: i }))
  const lines = await linesOf(metrics, 'davit_rows')
  expect(lines).toHaveLength(100)
  expect(lines[0]).toBe('davit_rows{organization="acme",endpoint_name="e0"} 0')
  read = () => {
    throw new Error('not yet')
  }
  expect(await linesOf(metrics, 'davit_rows')).toEqual([])
})

test.each([-5, Number.NaN, Number.POSITIVE_INFINITY])(
  'a duration of %d counts as none and does not throw',
  async (seconds) => {
    const metrics = createMetrics({ version: '0' })
    metrics.finished('exhausted', seconds)
    expect(await linesOf(metrics, 'davit_delivery_completion_delay_seconds_sum')).toEqual([
      'davit_delivery_completion_delay_seconds_sum 0',
    ])
  },
)

test('the values of a label are bounded, whatever a caller gives', async () => {
  const metrics = createMetrics({ version: '0' })
  for (let i = 0; i < 1000; i += 1) metrics.watchRestarted('deliveries', `reason ${i}`)
  const lines = await linesOf(metrics, 'davit_watch_restarts_total')
  expect(lines).toHaveLength(101)
  expect(lines.at(-1)).toBe('davit_watch_restarts_total{resource="deliveries",reason="other"} 900')
})

describe('a counter', () => {
  /** Of these, some label has values that are not known before they occur. */
  const OPEN = {
    davit_api_calls_total: 'any status of the API server',
    davit_cloud_calls_total: 'hundreds of codes, of which an operation returns a few',
    davit_cloud_retries_total: 'the same codes',
    davit_http_requests_total: 'any status',
    davit_reconcile_total: 'each controller adds its own',
    davit_watch_restarts_total: 'each watch adds its own',
  }

  /** Counters by their series in the scrape. */
  async function counters(metrics: { render(): Promise<string> }): Promise<Map<string, string[]>> {
    const text = await metrics.render()
    const names = [...text.matchAll(/^# TYPE (davit_\w+) counter$/gm)].map(([, name = '']) => name)
    return new Map(
      await Promise.all(names.map(async (name) => [name, await linesOf(metrics, name)] as const)),
    )
  }

  test('has a series for every value of its labels from the start, at 0, unless these are open', async () => {
    const found = await counters(createMetrics({ version: '0' }))
    const without = [...found].filter(([, lines]) => lines.length === 0).map(([name]) => name)
    expect(without.sort()).toEqual(Object.keys(OPEN).sort())
    expect([...found.values()].flat().filter((line) => !line.endsWith(' 0'))).toEqual([])
  })

  test.each([
    { name: 'davit_attempts_total', series: 12 },
    { name: 'davit_deliveries_finished_total', series: 3 },
    { name: 'davit_segment_writes_total', series: 2 },
    { name: 'davit_secrets_stored_total', series: 2 },
    { name: 'davit_parameters_removed_total', series: 5 },
    { name: 'davit_mails_total', series: 4 },
    { name: 'davit_kubernetes_events_dropped_total', series: 3 },
    { name: 'davit_bakes_total', series: 38 },
    { name: 'davit_views_omitted_total', series: 1 },
    { name: 'davit_payload_read_bytes_total', series: 1 },
  ])('$name has $series', async ({ name, series }) => {
    expect((await counters(createMetrics({ version: '0' }))).get(name)).toHaveLength(series)
  })

  test('of a controller or a watch starts when that is added', async () => {
    const metrics = createMetrics({ version: '0' })
    metrics.controllerAdded('webhook-endpoint')
    metrics.watchAdded('webhookendpoints', ['closed', 'Gone'])
    expect(await linesOf(metrics, 'davit_reconcile_total')).toEqual([
      'davit_reconcile_total{controller="webhook-endpoint",result="done"} 0',
      'davit_reconcile_total{controller="webhook-endpoint",result="requeued"} 0',
      'davit_reconcile_total{controller="webhook-endpoint",result="error"} 0',
    ])
    expect(await linesOf(metrics, 'davit_reconcile_duration_seconds_count')).toEqual([
      'davit_reconcile_duration_seconds_count{controller="webhook-endpoint"} 0',
    ])
    expect(await linesOf(metrics, 'davit_watch_restarts_total')).toEqual([
      'davit_watch_restarts_total{resource="webhookendpoints",reason="closed"} 0',
      'davit_watch_restarts_total{resource="webhookendpoints",reason="Gone"} 0',
    ])
  })

  test('that is one of a histogram does so as well', async () => {
    const metrics = createMetrics({ version: '0' })
    for (const name of ['davit_segment_records_count', 'davit_segment_write_duration_seconds_count'])
      expect(await linesOf(metrics, name)).toEqual([
        `${name}{kind="delivery"} 0`,
        `${name}{kind="outcome"} 0`,
      ])
  })
})
