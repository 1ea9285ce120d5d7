/**
 * Two controllers and two REST servers on a separate control plane, with a receiver, and a real Prometheus that scrapes all of
 * them.
 */
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { API_VERSION } from '../../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { webhookEventKind, webhookEvents } from '../../../src/apis/webhook-event.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  SERVER_ACCOUNT,
  startInstallation,
} from '../../support/installation.ts'
import { type Receiver, startReceiver } from '../../support/receiver.ts'
import { until } from '../../support/until.ts'
import type { AlertRules } from '../alert-rules.ts'
import { Member, type Settings } from './member.ts'
import { Prometheus } from './prometheus.ts'

export const ORGANIZATION = 'acme'
export const EVENT_TYPE = 'environment.started'

/** Waits between attempts are a hundredth of the documented ones; a mail server that is not there. */
export const SETTINGS: Settings = {
  DAVIT_WAIT_SCALE: '0.01',
  DAVIT_SHUTDOWN_TIMEOUT: '1s',
  DAVIT_BAKE_IMAGE: 'registry.example.com/davit:1',
  DAVIT_SMTP_URL: 'smtp://127.0.0.1:9',
  DAVIT_SMTP_FROM: 'davit@example.com',
}

/** A dead controller is noticed quickly; a hanging REST server is waited for longer than an alert takes. */
export const CONTROLLER_SETTINGS = { ...SETTINGS, DAVIT_LEASE_DURATION: '6s' }
export const API_SETTINGS = { ...SETTINGS, DAVIT_LEASE_DURATION: '40s' }

export type MonitoringBed = {
  davit: Installation
  controllers: readonly [Member, Member]
  servers: readonly [Member, Member]
  members: readonly Member[]
  receiver: Receiver
  prometheus: Prometheus
  folder: string
  /** A URL without a listener. */
  deadUrl: string
  endpoint(name: string, url: string, more?: Record<string, unknown>): Promise<void>
  /** Through the REST server. @returns the status of the answer */
  publish(data: unknown, type?: string): Promise<number>
  request(server: Member, method: string, path: string, body?: unknown): Promise<number>
  /** As with kubectl. */
  makeEvent(data: unknown): Promise<void>
  writeFile(name: string, text: string): Promise<string>
  stop(): Promise<void>
}

const REQUEST_LIMIT_MS = 15_000

/** Resolves when all are ready. @param rules of Prometheus @param settings of every process, in addition to those here */
export async function startBed(rules: AlertRules, settings: Settings = {}): Promise<MonitoringBed> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'davit-monitoring-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const davit = await startInstallation({ logFolder: folder })
  stack.defer(() => davit.stop())
  const receiver = await startReceiver()
  stack.defer(() => receiver.close())
  const key = await makeOrganization(davit)
  const members = await prepareMembers(davit, folder)
  stack.defer(async () => void (await Promise.all(members.map((member) => member.close()))))
  const [first, second, third, fourth] = members
  for (const member of [first, second]) member.start({ ...CONTROLLER_SETTINGS, ...settings })
  for (const member of [third, fourth]) member.start({ ...API_SETTINGS, ...settings })
  await Promise.all(members.map((member) => member.process.untilReady()))
  const targets = members.map(({ name, opsPort }) => ({ pod: name, port: opsPort }))
  const prometheus = await Prometheus.start(join(folder, 'prometheus'), targets, rules)
  stack.defer(() => prometheus.stop())
  await untilRead(prometheus, members.length)
  const owned = stack.move()
  const request = (server: Member, method: string, path: string, body?: unknown) =>
    ask(server, { method, path, key, body })
  return {
    davit,
    controllers: [first, second],
    servers: [third, fourth],
    members,
    receiver,
    prometheus,
    folder,
    deadUrl: 'http://127.0.0.1:9/dead',
    request,
    publish: (data, type = EVENT_TYPE) => request(third, 'POST', '/events', { type, data }),
    endpoint: (name, url, more = {}) => makeEndpoint(davit, name, { url, eventTypes: [EVENT_TYPE], ...more }),
    makeEvent: async (data) => {
      await davit.api.create(webhookEvents, {
        apiVersion: API_VERSION,
        kind: webhookEventKind.kind,
        metadata: { namespace: ORGANIZATION, name: `by-hand-${randomBytes(4).toString('hex')}` },
        spec: { type: EVENT_TYPE, dataText: JSON.stringify(data) },
      })
    },
    writeFile: async (name, text) => {
      const path = join(folder, name)
      await writeFile(path, text, { mode: 0o600 })
      return path
    },
    stop: () => owned.disposeAsync(),
  }
}

/** Rules are followed from the start, and what is not read yet is absent. */
async function untilRead(prometheus: Prometheus, count: number): Promise<void> {
  let seen = ''
  const isRead = async () => {
    const read = (await prometheus.query('davit_build_info')).map(({ metric }) => metric.pod)
    const firing = [...(await prometheus.firing())]
    seen = `read: ${read.join(', ')}; firing: ${firing.join(', ')}`
    return (read.length === count && firing.length === 0) || undefined
  }
  await until(isRead, () => `Prometheus does not read all processes as well: ${seen}`)
}

async function prepareMembers(
  davit: Installation,
  folder: string,
): Promise<[Member, Member, Member, Member]> {
  const controller = await davit.makeKubeconfig(CONTROLLER_ACCOUNT)
  const api = await davit.makeKubeconfig(SERVER_ACCOUNT)
  const server = davit.controlPlane.url
  const prepare = (role: 'controller' | 'api', name: string) =>
    Member.prepare({ role, name, server, folder, kubeconfigPath: role === 'api' ? api : controller })
  return [
    await prepare('controller', 'davit-controller-0'),
    await prepare('controller', 'davit-controller-1'),
    await prepare('api', 'davit-api-0'),
    await prepare('api', 'davit-api-1'),
  ]
}

/** @returns the key of its owner */
async function makeOrganization(davit: Installation): Promise<string> {
  await davit.makeOrganization(ORGANIZATION)
  const owner = await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner')
  return await davit.makeKey(owner)
}

async function makeEndpoint(
  { api }: Installation,
  name: string,
  spec: Record<string, unknown>,
): Promise<void> {
  const object: RawObject = {
    apiVersion: API_VERSION,
    kind: webhookEndpointKind.kind,
    metadata: { namespace: ORGANIZATION, name },
    spec,
  }
  await api.create(webhookEndpoints, object)
}

type Asked = { method: string; path: string; key: string; body: unknown }

/** @returns the status; 0 without an answer */
async function ask(server: Member, { method, path, key, body }: Asked): Promise<number> {
  try {
    const response = await fetch(`${server.url()}/organizations/${ORGANIZATION}${path}`, {
      method,
      headers: { authorization: key, ...(body === undefined ? {} : { 'content-type': 'application/json' }) },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
    })
    await response.arrayBuffer()
    return response.status
  } catch {
    return 0
  }
}
