/** An endpoint that points back at Davit itself, or at the API server, is rejected there, and there is no loop. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { type Installation, type ServerProcess, startInstallation } from '../support/installation.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'

const ORGANIZATION = 'acme'
const EVENTS = `/organizations/${ORGANIZATION}/events`
const HOOKS = `/organizations/${ORGANIZATION}/webhooks`
const MOST_ATTEMPTS = 8

let davit: Installation
let server: ServerProcess
let key: string

beforeAll(async () => {
  davit = await startInstallation()
  await davit.makeOrganization(ORGANIZATION)
  key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  // Its own networks are allowed: only the receiving side stops it here.
  const controller = await davit.startController({ DAVIT_WAIT_SCALE: '0.001' })
  server = await davit.startServer()
  await controller.untilReady()
  await server.process.untilReady()
  await untilLetIn({ server, organization: ORGANIZATION, owner: key })
}, 240_000)

afterAll(() => davit?.stop())

function post(path: string, body: unknown) {
  return ask(server, path, { method: 'POST', key, body: JSON.stringify(body) })
}

type Stored = {
  spec: { endpoint: string; eventType: string }
  status?: { state?: string; attempts?: { code?: number }[] }
}

async function deliveries(): Promise<Stored[]> {
  const { items } = await davit.api.list(webhookDeliveries, { namespace: ORGANIZATION, limit: 1000 })
  return items as unknown as Stored[]
}

test('each event makes one delivery to each, which ends after eight refusals', async () => {
  const targets = [
    `${server.baseUrl}${EVENTS}`,
    `${server.baseUrl}${HOOKS}`,
    `${davit.controlPlane.access.server.replace('https:', 'http:')}/apis/davit.dev/v1alpha1/namespaces/acme/webhookevents`,
  ]
  for (const url of targets) {
    expect((await post(HOOKS, { url, eventTypes: ['*'] })).status).toBe(201)
  }
  expect((await post(EVENTS, { type: 'billing.updated', data: {} })).status).toBe(202)
  const all = await until(
    async () => {
      const found = await deliveries()
      const ended = found.filter(({ status }) => status?.state === 'exhausted').length
      return found.length >= targets.length && ended === found.length ? found : undefined
    },
    () => 'they do not end',
    90_000,
  )
  const codes = new Set(all.flatMap(({ status }) => status?.attempts?.map(({ code }) => code ?? 0) ?? []))
  tellFigures('loops', {
    'endpoints that point back': targets.length,
    'deliveries of one event': all.length,
    'most attempts of one': Math.max(...all.map(({ status }) => status?.attempts?.length ?? 0)),
    'answered with': [...codes].sort().join(' and '),
    'events that came of it': new Set(all.map(({ spec }) => spec.eventType)).size - 1,
  })
  expect(all).toHaveLength(targets.length)
  expect(codes.has(202)).toBe(false)
  expect(Math.max(...all.map(({ status }) => status?.attempts?.length ?? 0))).toBe(MOST_ATTEMPTS)
}, 180_000)
