/**
 * `npm run picture` draws the dashboard's first rows for the docs, with what a real Prometheus has read of real processes: two minutes
 * in which one receiver fails, one hangs, a controller dies, and the API server is slow for a while.
 */
import { writeFile } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import type { Panel } from '../../../tools/docgen/dashboard/panel.ts'
import { QUESTION_ROWS } from '../../../tools/docgen/dashboard/question-rows.ts'
import { ROOT, readAlerts } from '../alert-rules.ts'
import { type MonitoringBed, ORGANIZATION, startBed } from '../bed/bed.ts'
import type { Found } from '../bed/prometheus.ts'
import { asked } from '../metric-names.ts'
import { drawRows, type Series } from './draw.ts'

const OUTPUT = 'docs/guides/dashboard.svg'
const SECONDS = 140
const EVERY_MS = 150
const TEXT = 'x'.repeat(400)
/** Low enough that what is used of them can be seen. */
const LIMITS = {
  DAVIT_MAX_LOG_BYTES: '4194304',
  DAVIT_MAX_WRITTEN_BYTES: '16777216',
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: '16777216',
  DAVIT_MAX_PENDING: '2000',
  DAVIT_MAX_PENDING_PER_ORGANIZATION: '2000',
}

/** What happens, in order: by the second at which it does, and in words. */
const SCRIPT: readonly [number, string, (bed: MonitoringBed) => unknown][] = [
  [20, 'a receiver answers with 503', (bed) => bed.receiver.answer('/shop', { status: 503 })],
  [32, 'another hangs', (bed) => bed.receiver.answer('/crm', 'hang')],
  [
    46,
    'the API server is delayed by 0.6 s',
    ({ members }) => members.forEach(({ proxy }) => void proxy.delay('up', 600)),
  ],
  [58, 'it recovers', ({ members }) => members.forEach(({ proxy }) => void proxy.heal())],
  [72, 'one of two controllers is killed', ({ controllers: [, second] }) => second.kill()],
]
const CAPTION = [
  'Two controllers and two REST servers on one machine, with low limits, scraped by Prometheus once a second.',
  SCRIPT.map(([, words], index) => `${String.fromCharCode(65 + index)}: ${words}`).join('. '),
]

const bed = await startBed(readAlerts(), LIMITS)
try {
  for (const name of ['billing', 'shop', 'crm', 'audit'])
    await bed.endpoint(name, `${bed.receiver.url}/${name}`)
  await bed.davit.api.patch(
    webhookEndpoints,
    { namespace: ORGANIZATION, name: 'crm' },
    { spec: { concurrency: 2 } },
  )
  const from = Date.now() / 1000
  await play(bed)
  const to = Date.now() / 1000
  const answers = await ask(bed, from, to)
  const seriesOf = (panel: Panel) => answers.get(panel) ?? []
  const marks = SCRIPT.map(([second]) => from + second)
  await writeFile(
    `${ROOT}${OUTPUT}`,
    drawRows(QUESTION_ROWS, { from, to, seriesOf, marks, caption: CAPTION }),
  )
  console.log(`wrote ${OUTPUT}`)
} finally {
  await bed.stop()
}
// Node itself, when it ends by itself, waits in vain for the handle of a connection that was reset.
process.exit()

async function play(of: MonitoringBed): Promise<void> {
  const begun = performance.now()
  const left = [...SCRIPT]
  const under = new Set<Promise<unknown>>()
  while (performance.now() - begun < SECONDS * 1000) {
    const [next] = left
    if (next && performance.now() - begun >= next[0] * 1000) {
      left.shift()
      await next[2](of)
    }
    const published = of.publish({ at: Date.now(), text: TEXT }).finally(() => under.delete(published))
    under.add(published)
    await sleep(EVERY_MS)
  }
  await Promise.all(under)
}

async function ask(of: MonitoringBed, from: number, to: number): Promise<Map<Panel, Series[]>> {
  const answers = new Map<Panel, Series[]>()
  for (const panel of QUESTION_ROWS.flatMap((row) => row.panels)) {
    const found: Series[] = []
    for (const { expr, legend } of panel.queries) {
      // A table shows the current values; over time it would show all that ever were.
      const results =
        panel.kind === 'table'
          ? await of.prometheus.query(asked(expr))
          : await of.prometheus.range(asked(expr, '5s'), from, to)
      found.push(...results.map((result) => seriesFrom(result, legend)))
    }
    answers.set(panel, found)
  }
  return answers
}

function seriesFrom({ metric, values, value }: Found, legend: string): Series {
  const samples = (values ?? (value ? [value] : []))
    .map(([at, text]) => ({ at, value: Number(text) }))
    .filter((sample) => Number.isFinite(sample.value))
  return {
    // Every pod is one of Davit's.
    legend: legend.replaceAll(
      /\{\{(\w+)\}\}/g,
      (_, name: string) => metric[name]?.replace(/^davit-/, '') ?? '',
    ),
    labels: metric,
    samples,
  }
}
