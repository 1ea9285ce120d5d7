/** Organizations with an exhausted quota, next to others: the real REST server, while no controller removes anything. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FrontAnswer, FrontRequest } from '../support/api-front.ts'
import { type FrontedServer, ORGANIZATION, startFrontedServer } from '../support/fronted-server.ts'
import { ask } from '../support/server-bed.ts'
import { untilLetIn } from '../support/server-tour.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'
const OTHER = 'umbrella'
/** Maximum number of waiting deliveries of an organization. */
const ROOM = 4
const FLOOD = 300
const COUNTED_AGAIN_MS = 300

let bed: FrontedServer
const keys: Record<string, string> = {}

beforeAll(async () => {
  bed = await startFrontedServer({ DAVIT_MAX_PENDING_PER_ORGANIZATION: String(ROOM) })
  await bed.davit.makeOrganization(OTHER)
  keys[ORGANIZATION] = bed.key
  keys[OTHER] = await bed.davit.makeKey(await bed.davit.makeAccount(OTHER, 'owner', 'davit-owner'))
  await untilLetIn({ server: bed.server, organization: OTHER, owner: keys[OTHER] })
  for (const organization of [ORGANIZATION, OTHER]) {
    const draft = { url: 'https://127.0.0.1/hook', eventTypes: [TYPE] }
    expect((await post(organization, 'webhooks', draft)).status).toBe(201)
  }
}, 240_000)

afterAll(() => bed?.stop())

function post(organization: string, what: string, body: object) {
  const path = `/organizations/${organization}/${what}`
  return ask(bed.server, path, { method: 'POST', key: keys[organization], body: JSON.stringify(body) })
}

const publish = (organization: string) => post(organization, 'events', { type: TYPE, data: {} })
const isAppend = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/deliverysegments')
const isLog = ({ path }: FrontRequest) => path.endsWith('/deliverysegments')

/**
 * Publishes one by one until it is rejected, also a moment later: an event may be counted twice until the index counts again.
 * @returns how many were accepted
 */
async function fill(organization: string): Promise<number> {
  let wasRefused = false
  for (let accepted = 0; accepted <= 2 * ROOM; ) {
    const { status, json } = await publish(organization)
    if (status === 202) {
      accepted += 1
      wasRefused = false
      continue
    }
    expect([status, json.code]).toEqual([503, 'intake_full'])
    if (wasRefused) return accepted
    wasRefused = true
    await sleep(COUNTED_AGAIN_MS)
  }
  throw new Error('it is never full')
}

test('one that is refused writes nothing, and takes nothing from another', async () => {
  expect(await fill(ORGANIZATION)).toBe(ROOM)
  const before = bed.front.requests.filter(isAppend).length
  const flood = Promise.all(Array.from({ length: FLOOD }, () => publish(ORGANIZATION)))
  const others = [await publish(OTHER), await publish(OTHER)]
  const refused = await flood
  expect(new Set(refused.map(({ status, json }) => `${status} ${json.code}`))).toEqual(
    new Set(['503 intake_full']),
  )
  for (const { headers } of refused) expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  expect(others.map(({ status }) => status)).toEqual([202, 202])
  expect(bed.front.requests.filter(isAppend).length).toBeLessThanOrEqual(before + others.length)
})

test('limits hold while the log is read again, and after that', async () => {
  await fill(OTHER)
  const gate = Promise.withResolvers<void>()
  const isList = (request: FrontRequest) => !request.isWatch && request.method === 'GET' && isLog(request)
  const isWatch = (request: FrontRequest) => request.isWatch && isLog(request)
  const lists = () => bed.front.requests.filter(isList).length
  const before = lists()
  // Both that follow the log have to read it again.
  for (let one = 0; one < 2; one += 1) {
    bed.front.answer(isWatch, GONE)
    bed.front.before(isList, () => gate.promise)
  }
  bed.front.cutWatches(isWatch)
  await until(
    async () => lists() >= before + 2 || undefined,
    () => 'the log is not listed again',
  )
  for (const organization of [ORGANIZATION, OTHER]) expect((await publish(organization)).status).toBe(503)
  gate.resolve()
  await until(
    async () => (await bed.server.process.isReady()) || undefined,
    () => 'the REST server does not become ready again',
  )
  for (const organization of [ORGANIZATION, OTHER]) expect(await fill(organization)).toBe(0)
})

const GONE: FrontAnswer = {
  status: 410,
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify({ kind: 'Status', apiVersion: 'v1', status: 'Failure', code: 410, reason: 'Expired' }),
}
