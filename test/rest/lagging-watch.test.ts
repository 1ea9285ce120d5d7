/** A REST server whose watches lag, break or restart: it reports what it does not know, and continues with what it does. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { FrontAnswer, FrontRequest, HeldWatches } from '../support/api-front.ts'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const TYPE = 'environment.started'
/** What is read for the log of deliveries alone. */
const READ_FOR_THE_LOG = ['outcomesegments', 'webhookdeliveries']
/** All of them together take longer than a watch may be lost without a report. */
const BETWEEN_LOOKS_MS = 300

let bed: FrontedServer
/** Another process, with nothing before its API server. */
let other: ServerProcess
/** Path of an endpoint. */
let hook: string
let held: HeldWatches | undefined
const ends: (() => void)[] = []

beforeAll(async () => {
  bed = await startFrontedServer()
  other = await bed.startAnother()
  const made = await bed.post(HOOKS, { url: 'https://127.0.0.1/hook', eventTypes: [TYPE] })
  hook = made.location
}, 240_000)

afterAll(() => bed?.stop())

afterEach(async () => {
  held?.release()
  for (const end of ends.splice(0)) end()
  await until(
    async () => (await bed.server.process.isReady()) || undefined,
    () => 'the REST server does not become ready again',
  )
})

const watchOf = (plural: string) => (request: FrontRequest) =>
  request.isWatch && request.path.endsWith(`/${plural}`)
const listOf = (plural: string) => (request: FrontRequest) =>
  !request.isWatch && request.method === 'GET' && request.path.endsWith(`/${plural}`)

function status(code: number, reason: string): FrontAnswer {
  const body = { kind: 'Status', apiVersion: 'v1', status: 'Failure', code, reason, message: reason }
  return { status: code, headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
}

/** No watch of the kind is there any more, or can be opened. */
function breakWatches(plural: string): void {
  ends.push(bed.front.answer(watchOf(plural), status(503, 'ServiceUnavailable'), Number.POSITIVE_INFINITY))
  bed.front.cutWatches(watchOf(plural))
}

async function publishAt(server: Pick<ServerProcess, 'baseUrl'>) {
  const body = JSON.stringify({ type: TYPE, data: {} })
  return await ask(server, EVENTS, { method: 'POST', key: bed.key, body })
}

/** A delivery that the other process has accepted. @returns its path */
async function acceptedElsewhere(): Promise<string> {
  const { status, json } = await publishAt(other)
  expect(status).toBe(202)
  return `${hook}/deliveries/${json.eventId}`
}

test('a delivery that another process has just accepted is waited for, and is not there after a second', async () => {
  held = bed.front.holdWatches(watchOf('deliverysegments'))
  const path = await acceptedElsewhere()
  const began = performance.now()
  const unseen = await ask(bed.server, path, { key: bed.key })
  expect([unseen.status, unseen.json.code]).toEqual([404, 'not_found'])
  expect(performance.now() - began).toBeGreaterThan(900)
  const asked = ask(bed.server, path, { key: bed.key })
  await until(
    async () => (await bed.server.process.gauge('davit_http_requests_in_flight')) === 1 || undefined,
    () => 'the request does not wait',
  )
  held.release()
  expect((await asked).status).toBe(200)
})

test('while the log cannot be watched, nothing is said not to be there', async () => {
  breakWatches('deliverysegments')
  const path = await acceptedElsewhere()
  const unseen = await ask(bed.server, path, { key: bed.key })
  expect(unseen.status).toBe(503)
  expect(unseen.headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  for (const end of ends.splice(0)) end()
  await until(
    async () => (await ask(bed.server, path, { key: bed.key })).status === 200 || undefined,
    () => 'the delivery does not come',
  )
})

test('while it is not known which endpoints there are, nothing is published and none are listed', async () => {
  breakWatches('webhookendpoints')
  const refusals = await until(
    async () => {
      const answers = await Promise.all([publishAt(bed.server), bed.list()])
      return answers.every((answer) => answer.status === 503) ? answers : undefined
    },
    () => 'it goes on as if nothing had happened',
  )
  for (const { json, headers } of refusals) {
    expect(json.code).toMatch(/^(overloaded|unavailable)$/)
    expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  }
  expect(await bed.server.process.isReady()).toBe(false)
  // The other one knows.
  expect((await publishAt(other)).status).toBe(202)
  for (const end of ends.splice(0)) end()
  await until(
    async () => (await publishAt(bed.server)).status === 202 || undefined,
    () => 'nothing can be published any more',
  )
})

test('a REST server stays ready and works while it reads the log again', async () => {
  const gate = Promise.withResolvers<void>()
  const isList = (request: FrontRequest) => READ_FOR_THE_LOG.some((plural) => listOf(plural)(request))
  const lists = () => bed.front.requests.filter(isList).length
  const before = lists()
  // Etcd has forgotten what the watches have seen: what is there now is listed, which takes a while.
  for (const plural of READ_FOR_THE_LOG) {
    bed.front.answer(watchOf(plural), status(410, 'Expired'))
    bed.front.before(listOf(plural), () => gate.promise)
    bed.front.cutWatches(watchOf(plural))
  }
  await until(
    async () => lists() >= before + READ_FOR_THE_LOG.length || undefined,
    () => 'the log is not listed again',
  )
  const answers: [boolean, number, number][] = []
  for (let look = 0; look < 20; look += 1) {
    const [ready, published, listed] = await Promise.all([
      bed.server.process.isReady(),
      publishAt(bed.server),
      ask(bed.server, `${hook}/deliveries`, { key: bed.key }),
    ])
    answers.push([ready, published.status, listed.status])
    await sleep(BETWEEN_LOOKS_MS)
  }
  gate.resolve()
  expect(answers).toEqual(answers.map(() => [true, 202, 200]))
})
