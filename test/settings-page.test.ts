/** The page about settings names every setting and every metric, with the defaults and limits that hold. */

import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import type { RunningApi } from '../src/cmd/api.ts'
import { ConfigError, parseConfig } from '../src/cmd/config.ts'
import {
  registerApiGauges,
  registerCertificate,
  registerControllerGauges,
  registerReadiness,
} from '../src/cmd/gauges.ts'
import { createMetrics, type Metrics } from '../src/cmd/metrics.ts'
import type { RunningController } from '../src/cmd/start-controller.ts'

const PAGE = readFileSync(new URL('../docs/reference/settings.md', import.meta.url), 'utf8')

const NONE = 'none'

type Row = { name: string; cells: string[] }

/** Rows of the tables whose first head is `head`, by the name in their first cell. */
function rowsOf(head: string): Row[] {
  return PAGE.split('\n\n')
    .filter((block) => block.startsWith(`| ${head} |`))
    .flatMap((block) => block.trim().split('\n').slice(2))
    .map((line) => line.slice(2, -2).split(' | '))
    .map(([first = '', ...cells]) => ({ name: bare(first), cells }))
}

function bare(code: string): string {
  return code.replaceAll('`', '')
}

const settings = rowsOf('Variable').map(({ name, cells: [given = '', allowed = ''] }) => ({
  name,
  given: bare(given),
  allowed,
}))
const ownSettings = settings.filter(({ name }) => name.startsWith('DAVIT_'))

/** The message about a mistake in one variable; undefined if the value is valid. */
function mistakeIn(variable: string, value: string): string | undefined {
  try {
    parseConfig({ [variable]: value })
    return undefined
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return error.mistakes.find((mistake) => mistake.variable === variable)?.allowed
  }
}

/** A variable that does not exist is answered with all that do. */
function knownSettings(): string[] {
  return mistakeIn('DAVIT_NO_SUCH_SETTING', 'x')?.match(/\bDAVIT_[A-Z_]+/g) ?? []
}

/** A scrape after everything has happened once. */
async function scrape(): Promise<string> {
  const metrics = createMetrics({ version: '1', role: 'controller' })
  metrics.attempt('2xx', 1)
  metrics.finished('succeeded', 1)
  metrics.started(1)
  metrics.segment('delivery', 1, 1)
  metrics.apiCall('get', '200', 1)
  metrics.cloudCall('ssm:PutParameter', 'ok', 1)
  metrics.cloudRetry('ssm:PutParameter', 'ThrottlingException')
  metrics.cloudTurn('ssm:PutParameter', 1)
  metrics.secretStored('created')
  metrics.parameterRemoved('deleted')
  metrics.baked('succeeded', 1)
  metrics.mailed('mailed')
  metrics.reconciled('webhook-endpoint', 'done', 1)
  metrics.answered('listEndpoints', 200, 1)
  metrics.watchRestarted('webhookendpoints', 'closed')
  metrics.kubernetesEventDropped('queue_full')
  const gauge: Metrics['gauge'] = (name, help, _read, label) =>
    metrics.gauge(name, help, () => (label === undefined ? 1 : { x: 1 }), label)
  const gaugeRows: Metrics['gaugeRows'] = (name, help, labels) =>
    metrics.gaugeRows(name, help, labels, () => [{ labels: labels.map(() => 'x'), value: 1 }])
  const total: Metrics['total'] = (name, help) => metrics.total(name, help, () => 1)
  const registry = { gauge: once(gauge), total: once(total), gaugeRows: once(gaugeRows) }
  const config = parseConfig({})
  registerControllerGauges(
    registry,
    { webhooks: {}, replica: {}, leaderTasks: {} } as RunningController,
    config,
  )
  registerApiGauges(registry, {} as RunningApi, config)
  registerReadiness(registry, () => [])
  registerCertificate(registry, undefined)
  return await metrics.render()
}

/** The metrics of Davit. */
async function scraped(): Promise<Row[]> {
  const text = await scrape()
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)]
    .map(([, name = '', type = '']) => ({ name, cells: [type, labelsOf(text, name)] }))
    .filter(({ name }) => !/^(process|nodejs)_/.test(name))
}

/** Both roles have some of them, in registries of their own. */
function once<Rest extends unknown[]>(register: (name: string, ...rest: Rest) => void) {
  const registered = new Set<string>()
  return (name: string, ...rest: Rest) => {
    if (!registered.has(name)) register(name, ...rest)
    registered.add(name)
  }
}

function labelsOf(text: string, metric: string): string {
  const [, labels = ''] = new RegExp(`^${metric}(?:_count)?\\{(.*)\\} `, 'm').exec(text) ?? []
  return [...labels.matchAll(/(\w+)="/g)].map(([, name]) => name).join(', ') || NONE
}

describe('the settings on the page', () => {
  test('are those that there are, each once', () => {
    expect(knownSettings().length).toBeGreaterThan(10)
    expect(ownSettings.map(({ name }) => name).sort()).toEqual(knownSettings().sort())
    expect(settings.map(({ name }) => name).filter((name) => !name.startsWith('DAVIT_'))).toEqual([
      'KUBECONFIG',
    ])
  })

  const withDefault = ownSettings.filter(({ name, given }) => given !== NONE && name !== 'DAVIT_REPLICA')

  test.for(withDefault)('$name has the default $given', ({ name, given }) => {
    expect(mistakeIn(name, given)).toBeUndefined()
    expect(parseConfig({ [name]: given })).toEqual(parseConfig({}))
  })

  const numbers = ownSettings.filter(({ name }) => /whole number/.test(mistakeIn(name, 'x') ?? ''))

  test.for(numbers)('$name takes what the page says: $allowed', ({ name, allowed }) => {
    const [, least, most] = /from (\d+) to (\d+)/.exec(mistakeIn(name, 'x') ?? '') ?? []
    expect(allowed).toMatch(new RegExp(`^${least} to ${most} \\w+$`))
  })

  const measures = ownSettings.filter(({ name }) =>
    /must be a (duration|size)/.test(mistakeIn(name, 'x') ?? ''),
  )

  test.for(measures)('$name takes what the page says: $allowed', ({ name, allowed }) => {
    const [, least, most] = /from (\w+) to (\w+)/.exec(mistakeIn(name, 'x') ?? '') ?? []
    expect(allowed).toBe(`${least} to ${most}`)
    for (const value of [least, most]) expect(mistakeIn(name, value ?? '') ?? '').not.toMatch(/duration|size/)
  })

  test('and what the text names are no others', () => {
    const named = new Set(PAGE.match(/\bDAVIT_[A-Z_]*[A-Z]/g))
    expect([...named].filter((name) => !knownSettings().includes(name))).toEqual([])
  })
})

describe('the metrics on the page', () => {
  test('are those that there are, with their types and labels', async () => {
    const shown = rowsOf('Metric').map(({ name, cells: [type = '', labels = ''] }) => ({
      name,
      cells: [type, bare(labels)],
    }))
    const byName = (a: Row, b: Row) => a.name.localeCompare(b.name)
    expect(shown.sort(byName)).toEqual((await scraped()).sort(byName))
  })

  test('and what the text names are no others', async () => {
    const known = new Set((await scraped()).map(({ name }) => name))
    const named = new Set(PAGE.match(/\b(davit|controller_runtime)_[a-z_]*[a-z]\b/g))
    expect([...named].filter((name) => !known.has(name))).toEqual([])
  })
})

/** What `promtool check metrics` complains of, which is not on every machine: the rules that names can break. */
function complaintsAbout(text: string): string[] {
  const helps = new Map(
    [...text.matchAll(/^# HELP (\S+) (.*)$/gm)].map(([, name = '', help = '']) => [name, help]),
  )
  return [...text.matchAll(/^# TYPE (\S+) (\S+)$/gm)].flatMap(([, name = '', type = '']) => {
    const words = name.split('_')
    const isSampled = type === 'histogram' || type === 'summary'
    const rules: [string, boolean][] = [
      ['no help text', !helps.get(name)],
      ['counter metrics should have "_total" suffix', type === 'counter' && !name.endsWith('_total')],
      ['non-counter metrics should not have "_total" suffix', type !== 'counter' && name.endsWith('_total')],
      ['reserved suffix', !isSampled && /_(count|sum|bucket)$/.test(name)],
      [
        'metric name should not include type',
        words.some((word) => /^(counter|gauge|histogram|summary)$/.test(word)),
      ],
      ["metric names should not contain ':'", name.includes(':')],
      ['snake_case', /[A-Z]/.test(name)],
      ['abbreviated unit', words.some((word) => /^(s|ms|us|ns|sec|b|kb|mb|gb|m|h|d)$/.test(word))],
      [
        'base unit',
        words.some((word) =>
          /^(milliseconds|microseconds|minutes|hours|days|kibibytes|mebibytes|kilobytes|megabytes|percent)$/.test(
            word,
          ),
        ),
      ],
      ['reserved label', !isSampled && new RegExp(`^${name}\\{[^}]*\\b(le|quantile)="`, 'm').test(text)],
    ]
    return rules.filter(([, isBroken]) => isBroken).map(([rule]) => `${name}: ${rule}`)
  })
}

describe('the names of all metrics', () => {
  test('break no rule of promtool, those of the libraries included', async () => {
    const text = await scrape()
    expect(text).toContain('# TYPE nodejs_active_handles gauge')
    expect(complaintsAbout(text)).toEqual([])
  })

  test.each([
    ['nodejs_active_handles_total', 'gauge', 'non-counter metrics should not have "_total" suffix'],
    ['nodejs_active_resources_total', 'gauge', 'non-counter metrics should not have "_total" suffix'],
    ['davit_bytes_written', 'counter', 'counter metrics should have "_total" suffix'],
    ['davit_segments_count', 'gauge', 'reserved suffix'],
    ['davit_lag_ms', 'gauge', 'abbreviated unit'],
    ['davit_age_minutes', 'gauge', 'base unit'],
    ['davit_queue_gauge', 'gauge', 'metric name should not include type'],
    ['davit_queueDepth', 'gauge', 'snake_case'],
  ])('would break one with the %2$s %1$s', (name, type, rule) => {
    expect(complaintsAbout(`# HELP ${name} Help.\n# TYPE ${name} ${type}\n${name} 1\n`)).toEqual([
      `${name}: ${rule}`,
    ])
    expect(complaintsAbout(`# HELP ${name} \n# TYPE ${name} ${type}\n`)).toContain(`${name}: no help text`)
  })
})
