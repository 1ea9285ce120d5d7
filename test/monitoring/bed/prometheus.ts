/** Debian's Prometheus as a process on loopback, which reads the processes of Davit as the Prometheus Operator has it do so. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { z } from 'zod'
import { freePort } from '../../../playground/free-port.ts'
import { until } from '../../support/until.ts'
import type { AlertRules } from '../alert-rules.ts'

export type Target = { pod: string; port: number }

const START_LIMIT_MS = 60_000
const ASK_LIMIT_MS = 10_000
const INTERVAL = '1s'

const sample = z.tuple([z.number(), z.string()])
const found = z.object({
  data: z.object({
    result: z.array(
      z.object({
        metric: z.record(z.string(), z.string()),
        values: z.array(sample).optional(),
        value: sample.optional(),
      }),
    ),
  }),
})
export type Found = z.infer<typeof found>['data']['result'][number]

const alerts = z.object({
  data: z.object({
    alerts: z.array(z.object({ state: z.string(), labels: z.record(z.string(), z.string()) })),
  }),
})

export class Prometheus {
  readonly #child: ChildProcess
  readonly #url: string
  readonly #exited: Promise<unknown>

  private constructor(child: ChildProcess, url: string) {
    this.#child = child
    this.#url = url
    this.#exited = once(child, 'exit')
  }

  static async start(folder: string, targets: readonly Target[], rules: AlertRules): Promise<Prometheus> {
    const port = await freePort()
    await mkdir(folder, { recursive: true })
    await writeFile(join(folder, 'alerts.yaml'), stringify(rules))
    await writeFile(join(folder, 'prometheus.yaml'), stringify(configuration(targets)))
    const log = openSync(join(folder, 'prometheus.log'), 'a', 0o600)
    const args = [
      `--config.file=${join(folder, 'prometheus.yaml')}`,
      `--storage.tsdb.path=${join(folder, 'data')}`,
      `--web.listen-address=127.0.0.1:${port}`,
      '--log.level=warn',
    ]
    const child = spawn('prometheus', args, { stdio: ['ignore', log, log] })
    closeSync(log)
    const prometheus = new Prometheus(child, `http://127.0.0.1:${port}`)
    const isReady = () =>
      prometheus.#get('/-/ready').then(
        ({ ok }) => ok || undefined,
        () => undefined,
      )
    await until(isReady, () => 'Prometheus does not become ready', START_LIMIT_MS)
    return prometheus
  }

  /** What an expression gives now. */
  async query(expr: string): Promise<Found[]> {
    return await this.#found('/api/v1/query', { query: expr })
  }

  /** The same over a time, in seconds since 1970, a sample a second. */
  async range(expr: string, from: number, to: number): Promise<Found[]> {
    return await this.#found('/api/v1/query_range', {
      query: expr,
      start: String(from),
      end: String(to),
      step: INTERVAL,
    })
  }

  /** Names of all metrics that it has read. */
  async metrics(): Promise<Set<string>> {
    const response = await this.#get('/api/v1/label/__name__/values')
    return new Set(z.object({ data: z.array(z.string()) }).parse(await response.json()).data)
  }

  /** Alerts that fire, each once. */
  async firing(): Promise<Set<string>> {
    const response = await this.#get('/api/v1/alerts')
    const { data } = alerts.parse(await response.json())
    return new Set(
      data.alerts.filter(({ state }) => state === 'firing').map(({ labels }) => labels.alertname ?? ''),
    )
  }

  async stop(): Promise<void> {
    this.#child.kill('SIGKILL')
    await this.#exited
  }

  async #found(path: string, parameters: Record<string, string>): Promise<Found[]> {
    const response = await this.#get(`${path}?${new URLSearchParams(parameters)}`)
    const body: unknown = await response.json()
    if (!response.ok) throw new Error(`${parameters.query}: ${JSON.stringify(body)}`)
    return found.parse(body).data.result
  }

  #get(path: string): Promise<Response> {
    return fetch(`${this.#url}${path}`, { signal: AbortSignal.timeout(ASK_LIMIT_MS) })
  }
}

/** Labels as those of a ServiceMonitor, so that labels of Davit's own are not hidden by them. */
function configuration(targets: readonly Target[]): object {
  return {
    global: { scrape_interval: INTERVAL, scrape_timeout: INTERVAL, evaluation_interval: INTERVAL },
    rule_files: ['alerts.yaml'],
    scrape_configs: [
      {
        job_name: 'davit',
        static_configs: targets.map(({ pod, port }) => ({
          targets: [`127.0.0.1:${port}`],
          labels: {
            namespace: 'davit-system',
            service: 'davit-ops',
            endpoint: 'ops',
            container: 'davit',
            pod,
          },
        })),
      },
    ],
  }
}
