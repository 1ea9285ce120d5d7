/** A REST server with a clock that is a day ahead: recently used idempotency keys still stand for their results. */
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import type { ServerProcess } from '../support/installation.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { ask } from '../support/server-bed.ts'
import { until } from '../support/until.ts'

const DAY_MS = 86_400_000
const SHIFTED_CLOCK = new URL('../support/shifted-clock.ts', import.meta.url).href
const TYPE = 'environment.started'

let folder: string
let bed: FrontedServer
let receiver: Receiver
let other: ServerProcess

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-clock-'))
  receiver = await startReceiver()
  bed = await startFrontedServer()
  const clockPath = join(folder, 'clock')
  await writeFile(clockPath, '0')
  other = await bed.startAnother({
    NODE_OPTIONS: `--import ${SHIFTED_CLOCK}`,
    CLOCK_OFFSET_FILE: clockPath,
  })
  await writeFile(clockPath, String(DAY_MS))
  const seen = async () => await readFile(`${clockPath}.seen`, 'utf8').catch(() => undefined)
  await until(
    async () => (await seen()) === String(DAY_MS) || undefined,
    () => 'the clock is not set',
  )
}, 240_000)

afterAll(async () => {
  await bed?.stop()
  await receiver?.close()
  await rm(folder, { recursive: true, force: true })
})

function post(at: Pick<ServerProcess, 'baseUrl'>, path: string, body: unknown, key: string) {
  return ask(at, path, {
    method: 'POST',
    key: bed.key,
    headers: { 'idempotency-key': key },
    body: JSON.stringify(body),
  })
}

test('an endpoint is made once, and an event published once, whichever REST server is asked again', async () => {
  const hook = { url: `${receiver.url}/once`, eventTypes: [TYPE] }
  const event = { type: TYPE, data: {} }
  const made = await post(bed.server, HOOKS, hook, 'hook')
  const again = await post(other, HOOKS, hook, 'hook')
  expect([made.status, again.status]).toEqual([201, 201])
  expect((again.json.endpoint as { endpointId: string }).endpointId).toBe(
    (made.json.endpoint as { endpointId: string }).endpointId,
  )
  const published = await post(bed.server, EVENTS, event, 'event')
  const repeated = await post(other, EVENTS, event, 'event')
  expect([published.status, repeated.status]).toEqual([202, 202])
  expect(repeated.json.eventId).toBe(published.json.eventId)
  expect(repeated.headers.get('idempotency-replayed')).toBe('true')
  // And the other way round: what it makes is not of tomorrow.
  const first = await post(other, EVENTS, event, 'another')
  const second = await post(bed.server, EVENTS, event, 'another')
  expect([first.status, second.json.eventId]).toEqual([202, first.json.eventId])
})
