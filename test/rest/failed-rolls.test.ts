/** Rotations of a secret that never become active: the real REST server, without a controller to acknowledge them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { secret, secrets } from '../../src/apis/core-kinds.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import {
  EVENTS,
  type FrontedServer,
  HOOKS,
  ORGANIZATION,
  startFrontedServer,
} from '../support/fronted-server.ts'
import { OPERATOR_NAMESPACE } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'
/** Together with the first one they would exceed the limit of active ones. */
const FAILED_ROLLS = 5
const LIMIT_MS = 180_000

type Key = { secret: string; expiresAt?: string; request?: string }

let bed: FrontedServer
let receiver: Receiver
let controller: RoleProcess

beforeAll(async () => {
  receiver = await startReceiver()
  bed = await startFrontedServer()
  controller = await bed.davit.startController()
  await controller.untilReady()
}, LIMIT_MS)

afterAll(async () => {
  await bed?.stop()
  await receiver?.close()
})

/** An active endpoint. */
async function make(name: string) {
  const made = await bed.post(HOOKS, { url: `${receiver.url}/${name}`, eventTypes: [TYPE] })
  const path = made.location
  const ref = { namespace: ORGANIZATION, name: path.split('/whe_')[1] ?? '' }
  await until(
    async () => webhookEndpoint.parse(await bed.davit.api.get(webhookEndpoints, ref)).status?.signingSecrets,
    () => 'the endpoint has no key',
  )
  return { path, name: ref.name, first: String(made.json.secret) }
}

function roll(path: string, key?: string) {
  return bed.post(`${path}/secret/roll`, {}, key === undefined ? {} : { 'idempotency-key': key })
}

/** Those that sign now, newest first. */
async function inForce(endpoint: string): Promise<Key[]> {
  const name = signingSecretName(ORGANIZATION, endpoint)
  const { data } = secret.parse(await bed.davit.api.get(secrets, { namespace: OPERATOR_NAMESPACE, name }))
  const { keys } = JSON.parse(Buffer.from(data?.keys ?? '', 'base64').toString('utf8')) as { keys: Key[] }
  return keys.filter(({ expiresAt }) => expiresAt === undefined || Date.parse(expiresAt) > Date.now())
}

async function startController(): Promise<void> {
  controller = await bed.davit.startController()
  await controller.untilReady()
}

test(
  'one that failed leaves no secret in force beside the next one, however often it is repeated',
  async () => {
    const { path, name, first } = await make('unseen')
    await controller.stop()
    for (let again = 0; again < FAILED_ROLLS; again += 1) {
      const failed = await roll(path)
      expect([failed.status, failed.json.code]).toEqual([503, 'not_acknowledged'])
      expect(failed.text).not.toContain('whsec_')
    }
    const left = await inForce(name)
    expect(left.map((one) => one.secret)).toEqual([expect.any(String), first])
    await startController()
    const rolled = await roll(path)
    expect(rolled.status).toBe(200)
    const seen = String(rolled.json.secret)
    expect((await inForce(name)).map((one) => one.secret)).toEqual([seen, first])
    expect((await bed.post(EVENTS, { type: TYPE, data: {} })).status).toBe(202)
    const [request] = await receiver.waitFor(1, { path: '/unseen' })
    expect(request && signersOf(request, [seen, first])).toEqual([0, 1])
  },
  LIMIT_MS,
)

test(
  'one under a key that failed is shown to its repeat, and to no other',
  async () => {
    const { path, name, first } = await make('keyed')
    await controller.stop()
    const failed = await roll(path, 'rolled')
    expect([failed.status, failed.json.code]).toEqual([503, 'not_acknowledged'])
    const [stored] = await inForce(name)
    await startController()
    const repeated = await roll(path, 'rolled')
    expect([repeated.status, repeated.json.secret]).toEqual([200, stored?.secret])
    expect((await inForce(name)).map((one) => one.secret)).toEqual([stored?.secret, first])
    const again = await roll(path, 'rolled')
    expect([again.status, again.headers.get('idempotency-replayed')]).toEqual([200, 'true'])
    expect(again.json).not.toHaveProperty('secret')
  },
  LIMIT_MS,
)
