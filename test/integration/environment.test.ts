/** The real processes as they are installed: what their environment, and other people's names, do to them. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFile } from 'node:fs/promises'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { createTestAuthority } from '../support/tls.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'hostile-organization'
const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
/** More than the maximum number of label values. */
const MANY = 150

const OTHER_PROGRAM =
  'fetch(process.argv[1], { signal: AbortSignal.timeout(5000) }).finally(() => process.exit()).catch(() => 0)'

let davit: Installation
let plain: Receiver
let secure: Receiver
let proxy: Server
/** What came to the proxy. */
const proxied: string[] = []
let environment: Record<string, string>
let controller: RoleProcess
let server: ServerProcess
let key: string

beforeAll(async () => {
  proxy = createServer((socket: Socket) => {
    socket.on('error', () => undefined)
    socket.once('data', (data) => {
      proxied.push(data.toString('latin1'))
      socket.end('HTTP/1.1 502 Bad Gateway\r\ncontent-length: 0\r\nconnection: close\r\n\r\n')
    })
  }).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  environment = proxyVariables(`http://127.0.0.1:${(proxy.address() as AddressInfo).port}`)
  const { ca, issue } = createTestAuthority()
  plain = await startReceiver()
  secure = await startReceiver({ tls: issue(['127.0.0.1']) })
  davit = await startInstallation()
  const caPath = join(davit.folder, 'ca.pem')
  await writeFile(caPath, ca)
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  controller = await davit.startController({ ...environment, DAVIT_EXTRA_CA_FILE: caPath })
  server = await davit.startServer({ settings: environment })
  await controller.untilReady()
  await server.process.untilReady()
  await untilLetIn({ server, organization: ORGANIZATION, owner: key })
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await Promise.all([plain?.close(), secure?.close()])
  proxy?.close()
})

/** As they are set on machines that reach the world by a proxy alone. */
function proxyVariables(url: string): Record<string, string> {
  const names = ['HTTP_PROXY', 'HTTPS_PROXY', 'ALL_PROXY'].flatMap((name) => [name, name.toLowerCase()])
  return {
    ...Object.fromEntries(names.map((name) => [name, url])),
    NO_PROXY: '',
    no_proxy: '',
    NODE_USE_ENV_PROXY: '1',
  }
}

function post(path: string, body: unknown) {
  return ask(server, path, { method: 'POST', key, body: JSON.stringify(body) })
}

async function makeEndpoint(url: string, types: string[]): Promise<void> {
  const { status } = await post(HOOKS, { url, eventTypes: types })
  expect(status).toBe(201)
}

async function publish(type: string): Promise<void> {
  const { status } = await post(`/organizations/${ORGANIZATION}/events`, { type, data: {} })
  expect(status).toBe(202)
}

test('webhooks, and calls of the API server, go past a proxy of the environment', async () => {
  await makeEndpoint(`${plain.url}/plain`, ['environment.started'])
  await makeEndpoint(`${secure.url}/secure`, ['environment.started'])
  await publish('environment.started')
  await plain.waitFor(1, { path: '/plain' })
  await secure.waitFor(1, { path: '/secure' })
  expect(proxied).toEqual([])
  // Other programs do use it.
  const other = spawn(process.execPath, ['-e', OTHER_PROGRAM, `${plain.url}/other`], {
    env: environment,
    stdio: 'ignore',
  })
  await once(other, 'exit')
  expect(proxied.join()).toContain('127.0.0.1')
  expect(plain.received('/other')).toEqual([])
})

test('whatever names, paths and answers others come up with, the labels of metrics are few and Davit’s own', async () => {
  const types = Array.from({ length: MANY }, (_, i) => `hostile.type${i}`)
  for (const name of types)
    await davit.api.create(eventTypes, {
      apiVersion: API_VERSION,
      kind: 'EventType',
      metadata: { name },
      spec: { description: 'Hostile.' },
    })
  let answers = 0
  plain.answer('/hostile', () => {
    answers += 1
    return { status: 200 + (answers % 399), body: 'hostile' }
  })
  await makeEndpoint(`${plain.url}/hostile`, ['*'])
  await until(
    async () =>
      (await post(`/organizations/${ORGANIZATION}/events`, { type: types.at(-1), data: {} })).status ===
        202 || undefined,
    () => 'the types are not known',
  )
  for (const [i, type] of types.entries()) {
    await publish(type)
    await ask(server, `/hostile/${i}`, { key })
    await ask(server, `/organizations/hostile-${i}/webhooks`, { key })
    await ask(server, `${HOOKS}/whe_hostile-${i}`, { method: ['GET', 'DELETE'][i % 2] ?? 'GET', key })
    await ask(server, `${HOOKS}?hostile-${i}=1`, { key: `hostile-${i}` })
  }
  await plain.waitFor(MANY, { path: '/hostile' })
  for (const url of [controller.metricsUrl, server.process.metricsUrl]) {
    const text = await (await fetch(url)).text()
    // Those name endpoints that fail, a hundred of them at most.
    const failing = text
      .split('\n')
      .filter((line) => /^davit_endpoint_fail(ing_seconds|ed_attempts)\{/.test(line))
    expect(failing.length).toBeLessThanOrEqual(200)
    const samples = text
      .split('\n')
      .filter((line) => line.startsWith('davit_') || line.startsWith('controller_'))
      .filter((line) => !failing.includes(line))
    const values = samples.flatMap((line) =>
      [...line.matchAll(/(\w+)="([^"]*)"/g)].map(([, label, value]) => ({
        // Each metric has causes of its own.
        name: `${/^\w+/.exec(line)} ${label}`,
        label,
        value,
      })),
    )
    const named = Map.groupBy(
      values.filter(({ label }) => label !== 'le'),
      ({ name }) => name,
    )
    for (const [name, found] of named) {
      const distinct = new Set(found.map(({ value }) => value))
      expect({ name, many: distinct.size > 60 }).toEqual({ name, many: false })
    }
    expect(samples.filter((line) => /hostile|whe_|msg_|127\.0\.0\.1/.test(line))).toEqual([])
    expect(named.size).toBeGreaterThan(3)
  }
}, 120_000)
