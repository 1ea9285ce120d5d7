/** What an Idempotency-Key stands for if its request was rejected, or if the log does not deliver the append in time. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { FrontRequest } from '../support/api-front.ts'
import { EVENTS, type FrontedServer, HOOKS, startFrontedServer } from '../support/fronted-server.ts'
import { ask } from '../support/server-bed.ts'

const TYPE = 'environment.started'

let bed: FrontedServer

beforeAll(async () => {
  bed = await startFrontedServer({ DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: '1' })
}, 240_000)

afterAll(() => bed?.stop())

const isAppend = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/deliverysegments')
const appends = () => bed.front.requests.filter(isAppend).length

function create(key: string, url: string) {
  return bed.post(HOOKS, { url, eventTypes: [TYPE] }, { 'idempotency-key': key })
}

test('what is refused before it was begun uses up no key', async () => {
  // With an invalid body, a forbidden one, and one that exceeds a quota.
  expect((await create('one', 'no-url')).status).toBe(422)
  expect((await create('one', 'https://10.0.0.1/')).status).toBe(422)
  const first = await create('first', 'https://127.0.0.1/first')
  expect(first.status).toBe(201)
  const full = await create('one', 'https://127.0.0.1/full')
  expect([full.status, full.json.code]).toEqual([409, 'too_many_endpoints'])
  const path = first.location
  expect((await ask(bed.server, path, { method: 'DELETE', key: bed.key })).status).toBe(204)
  const made = await create('one', 'https://127.0.0.1/made')
  expect([made.status, made.headers.get('idempotency-replayed')]).toEqual([201, null])
  const repeated = await create('one', 'https://127.0.0.1/made')
  expect([repeated.status, repeated.headers.get('idempotency-replayed')]).toEqual([201, 'true'])
  expect(repeated.location).toBe(made.location)
})

test('what the log does not show in time is appended once, however often it is repeated', async () => {
  const publish = (key: string, data: object) =>
    bed.post(EVENTS, { type: TYPE, data }, { 'idempotency-key': key })
  expect((await publish('before', {})).status).toBe(202)
  const held = bed.front.holdWatches(({ path }) => path.endsWith('/deliverysegments'))
  const before = appends()
  const unseen = [await publish('late', { number: 1 })]
  for (let again = 0; again < 2; again += 1) unseen.push(await publish('late', { number: 1 }))
  for (const { status, headers } of unseen) {
    expect(status).toBe(503)
    expect(headers.get('retry-after')).toMatch(/^[1-9]\d*$/)
  }
  expect(appends()).toBe(before + 1)
  held.release()
  const statuses: number[] = []
  await expect
    .poll(
      async () => {
        const answer = await publish('late', { number: 1 })
        statuses.push(answer.status)
        return [answer.status, answer.headers.get('idempotency-replayed')]
      },
      { timeout: 30_000 },
    )
    .toEqual([202, 'true'])
  expect(appends()).toBe(before + 1)
}, 120_000)
