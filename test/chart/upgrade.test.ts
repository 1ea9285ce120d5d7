/** Chart N becomes N+1 during deliveries: kinds, roles and policies by Helm, the pods like a Deployment rollout. */

import { cp, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, helm } from '../support/chart/helm.ts'
import { type Installation, OPERATOR_NAMESPACE, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const TEST_LIMIT_MS = 300_000
const ACME = 'acme'
const TYPE = 'environment.started'
const ENDPOINTS = 6
const EVENTS = 200
const PUBLISH_EVERY_MS = 100
/** Waits of retries are hundredths of a second to a second. */
const SETTINGS = { DAVIT_WAIT_SCALE: '0.003', DAVIT_LEASE_DURATION: '5s' }
const DEFINITION = 'templates/crds/davit.dev_webhookendpoints.yaml'
const ENDPOINTS_KIND = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/webhookendpoints.davit.dev'

let davit: Installation
let receiver: Receiver
let folder: string

beforeAll(async () => {
  await findChartTools()
  folder = await mkdtemp(join(tmpdir(), 'davit-upgrade-'))
  receiver = await startReceiver()
  davit = await startInstallation()
  await davit.makeOrganization(ACME)
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

/** The chart with another version, and a kind of another form. */
async function chartBefore(): Promise<string> {
  const chart = join(folder, 'davit')
  await cp(CHART, chart, { recursive: true })
  const change = async (file: string, from: RegExp, to: string) => {
    const text = await readFile(join(chart, file), 'utf8')
    expect(text).toMatch(from)
    await writeFile(join(chart, file), text.replace(from, to))
  }
  await change('Chart.yaml', /^version: .*$/m, 'version: 0.0.1')
  await change(DEFINITION, /name: Ready\n/, 'name: Was-ready\n')
  return chart
}

function release(...args: string[]): Promise<string> {
  const where = ['--namespace', OPERATOR_NAMESPACE, '--force-conflicts']
  return helm('helm4', [...args, ...where], davit.controlPlane.kubeconfigPath)
}

async function columns(): Promise<string> {
  const { body } = await requestApi(davit.controlPlane.access, { method: 'GET', path: ENDPOINTS_KIND })
  return JSON.stringify(body)
}

function isOrdered(n: number): boolean {
  return n % 2 === 0
}

async function makeEndpoints(): Promise<void> {
  for (let n = 0; n < ENDPOINTS; n += 1) {
    // Slow, and failing now and then, so that something is always on the wire or waits for its retry.
    let answered = 0
    receiver.answer(`/to-${n}`, () => {
      answered += 1
      return { delayMs: (answered % 7) * 40, status: answered % 11 === 0 ? 503 : 200 }
    })
    const metadata = { namespace: ACME, name: `to-${n}` }
    const spec = { url: `${receiver.url}/to-${n}`, eventTypes: [TYPE], ordered: isOrdered(n) }
    await davit.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata,
      spec,
    })
    await until(
      async () => {
        const { status } = webhookEndpoint.parse(await davit.api.get(webhookEndpoints, metadata))
        return status?.signingSecrets
      },
      () => `to-${n} is not in force`,
    )
  }
}

async function publish(): Promise<void> {
  for (let n = 0; n < EVENTS; n += 1) {
    const metadata = { namespace: ACME, name: `event-${String(n).padStart(4, '0')}` }
    const spec = { type: TYPE, data: { n } }
    await davit.api.create(webhookEvents, { apiVersion: API_VERSION, kind: 'WebhookEvent', metadata, spec })
    await new Promise((resolve) => setTimeout(resolve, PUBLISH_EVERY_MS))
  }
}

/** maxSurge 1, maxUnavailable 0: a new pod is ready before an old one is asked to end; its end is not awaited. */
async function roll(old: RoleProcess[]): Promise<RoleProcess[]> {
  const fresh: RoleProcess[] = []
  for (const each of old) {
    const next = await davit.startController(SETTINGS)
    await next.untilReady()
    each.terminate()
    fresh.push(next)
  }
  return fresh
}

/** Numbers that were taken with 2xx, in that order. */
function takenAt(n: number): number[] {
  return receiver
    .received(`/to-${n}`)
    .filter((_, index) => (index + 1) % 11 !== 0)
    .map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
}

test(
  'nothing is lost, nothing comes out of order, and the old processes end well',
  async () => {
    await release('install', 'davit', await chartBefore(), '--take-ownership')
    expect(await columns()).toContain('Was-ready')
    const old = [await davit.startController(SETTINGS), await davit.startController(SETTINGS)]
    for (const each of old) await each.untilReady()
    await makeEndpoints()
    const published = publish()
    await receiver.waitFor(ENDPOINTS * 10)
    await release('upgrade', 'davit', CHART)
    expect(await columns()).not.toContain('Was-ready')
    const fresh = await roll(old)
    expect(await Promise.all(old.map(({ exited }) => exited))).toEqual([0, 0])
    const whileRolling = receiver.requests.length
    await published
    const missing = () =>
      Array.from({ length: ENDPOINTS }, (_, n) => EVENTS - new Set(takenAt(n)).size).reduce((a, b) => a + b)
    await until(
      async () => missing() === 0 || undefined,
      () => `${missing()} deliveries did not come`,
      120_000,
    )
    let repeated = 0
    for (let n = 0; n < ENDPOINTS; n += 1) {
      const taken = takenAt(n)
      repeated += taken.length - EVENTS
      const firsts = [...new Set(taken)]
      if (isOrdered(n)) expect(firsts).toEqual(firsts.toSorted((a, b) => a - b))
    }
    console.info(
      `an upgrade with ${ENDPOINTS * EVENTS} deliveries: ${whileRolling} attempts until it had rolled, 0 lost, ${repeated} sent twice`,
    )
    expect(repeated).toBeLessThanOrEqual(ENDPOINTS)
    for (const each of fresh) expect(each.running).toBe(true)
  },
  TEST_LIMIT_MS,
)
