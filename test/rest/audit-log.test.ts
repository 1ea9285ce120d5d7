/** Signing keys through all that Davit does with them, and the audit log of an API server that keeps all bodies but those of Secrets. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { secret, secrets } from '../../src/apis/core-kinds.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { Scanner } from '../canary/scan/scanner.ts'
import { readAuditTrail } from '../support/audit-trail.ts'
import {
  type Installation,
  OPERATOR_NAMESPACE,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'

const ORGANIZATION = 'acme'
const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const SHARED = 'receiver-keys'

let davit: Installation
let server: ServerProcess
let receiver: Receiver
let folder: string
let logPath: string
let key: string
/** Every signing key that there was. */
const keys = new Set<string>()

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-audit-'))
  logPath = join(folder, 'audit.log')
  receiver = await startReceiver()
  davit = await startInstallation({ audit: { logPath, level: 'RequestResponse' } })
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  await (await davit.startController()).untilReady()
  server = await davit.startServer()
  await server.process.untilReady()
  await untilLetIn({ server, organization: ORGANIZATION, owner: key })
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

async function post(path: string, body: object, idempotencyKey?: string) {
  const headers = idempotencyKey === undefined ? {} : { 'idempotency-key': idempotencyKey }
  const answer = await ask(server, path, { method: 'POST', key, headers, body: JSON.stringify(body) })
  expect(answer.status).toBeLessThan(300)
  if (typeof answer.json.secret === 'string') keys.add(answer.json.secret)
  return answer
}

/** Made, rolled in both ways, used and deleted. */
async function liveOverRest(): Promise<void> {
  const draft = { url: `${receiver.url}/rest`, eventTypes: ['environment.started'] }
  const path = (await post(HOOKS, draft, 'made')).location
  await post(HOOKS, draft, 'made')
  await post(`${path}/secret/roll`, {}, 'rolled')
  await post(`${path}/secret/roll`, { expireOld: true })
  await post(`${path}/ping`, {})
  await receiver.waitFor(1, { path: '/rest' })
  const { status } = await ask(server, path, { method: 'DELETE', key })
  expect(status).toBe(204)
}

/** Created by kubectl, with a Secret that gives the keys to the receiver, and rotated by annotation. */
async function liveWithKubectl(): Promise<void> {
  const ref = { namespace: ORGANIZATION, name: 'kubectl' }
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: 'WebhookEndpoint',
    metadata: ref,
    spec: { url: `${receiver.url}/kubectl`, eventTypes: ['*'], signingSecret: { name: SHARED } },
  })
  const untilKeys = (count: number) =>
    until(
      async () => {
        const { status } = webhookEndpoint.parse(await davit.api.get(webhookEndpoints, ref))
        return status?.signingSecrets?.length === count || undefined
      },
      () => `the endpoint does not have ${count} keys`,
    )
  await untilKeys(1)
  const value = new Date().toISOString()
  await davit.api.patch(webhookEndpoints, ref, {
    metadata: { annotations: { 'davit.dev/rotate-requested-at': value } },
  })
  await untilKeys(2)
  await post(`/organizations/${ORGANIZATION}/events`, { type: 'environment.started', data: {} })
  await receiver.waitFor(1, { path: '/kubectl' })
}

/** The keys in the Secrets of a namespace. */
async function keysIn(namespace: string): Promise<string[]> {
  const { items } = await davit.api.list(secrets, { namespace })
  const texts = items.flatMap((raw) => Object.values(secret.parse(raw).data ?? {}))
  const inClear = texts.map((text) => Buffer.from(text, 'base64').toString('utf8')).join('\n')
  return inClear.match(/whsec_[A-Za-z0-9+/=]+/g) ?? []
}

test('no signing key is in it, in whatever form, from the making of an endpoint to its end', async () => {
  await liveOverRest()
  await liveWithKubectl()
  const shared = await until(
    async () => {
      const found = await keysIn(ORGANIZATION)
      return found.length > 1 ? found : undefined
    },
    () => 'the receiver is shown no keys',
  )
  for (const one of [...shared, ...(await keysIn(OPERATOR_NAMESPACE))]) keys.add(one)
  expect(keys.size).toBe(5)
  const bare = [...keys].map((one) => one.replace('whsec_', ''))
  const scanner = new Scanner([...bare, ...bare.map((one) => Buffer.from(one, 'base64').toString('hex'))])
  const log = await readFile(logPath)
  expect(scanner.scan(log)).toEqual([])
  expect(log.includes('whsec_')).toBe(false)
  // It would have been found; and what it is about is in the log.
  const planted = Buffer.from(
    `{"data":"${Buffer.from(JSON.stringify({ keys: [bare[0]] })).toString('base64')}"}`,
  )
  expect(scanner.scan(Buffer.concat([log, planted]))).toHaveLength(1)
  const writes = (await readAuditTrail(logPath)).filter(
    ({ resource, verb }) => resource === 'secrets' && /^(create|patch|update|delete)$/.test(verb),
  )
  expect(new Set(writes.map(({ namespace }) => namespace))).toEqual(
    new Set([OPERATOR_NAMESPACE, ORGANIZATION]),
  )
  expect(log.includes(`${receiver.url}/kubectl`)).toBe(true)
}, 120_000)
