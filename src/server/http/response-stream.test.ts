import { expect, test } from 'vitest'
import {
  ask,
  dial,
  KEYS,
  ORGANIZATION,
  type ServerBed,
  startServerBed,
} from '../../../test/support/server-bed.ts'
import { until } from '../../../test/support/until.ts'
import type { StreamConnection } from './response-stream.ts'

const STREAM = `/organizations/${ORGANIZATION}/stream`
const HEARTBEAT = 'id: 1-1-1\nevent: heartbeat\ndata: {}\n\n'

/** Streams of this server go on, and are in the list. */
function keepOpen({ services }: ServerBed): StreamConnection[] {
  const open: StreamConnection[] = []
  services.streams.open = async () => (connection) => {
    open.push(connection)
    connection.write(HEARTBEAT)
  }
  return open
}

async function connect(bed: ServerBed) {
  const connection = await dial(bed)
  connection.write(`GET ${STREAM} HTTP/1.1\r\nHost: x\r\nAuthorization: ${KEYS.owner}\r\n\r\n`)
  await connection.until('heartbeat')
  return connection
}

test('a stream has the headers of every response, and those that keep proxies from holding it back', async () => {
  const bed = await startServerBed()
  const response = await fetch(bed.baseUrl + STREAM, { headers: { authorization: KEYS.owner } })
  expect(response.status).toBe(200)
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'text/event-stream',
    'cache-control': 'no-store',
    'x-accel-buffering': 'no',
    'x-request-id': expect.stringMatching(/^req_/),
    ratelimit: expect.any(String),
  })
  expect(await response.text()).toBe(HEARTBEAT)
})

test.each([
  { given: {}, want: undefined },
  { given: { header: '5.1-6-7' }, want: 5 },
  { given: { query: '8-6-7' }, want: 8 },
  { given: { header: '5.1-6-7', query: '8-6-7' }, want: 5 },
  { given: { header: '', query: '8-6-7' }, want: 8 },
])(
  'a client continues at the position in its header, or else in its query: $given',
  async ({ given, want }) => {
    const bed = await startServerBed()
    const { header, query } = given as { header?: string; query?: string }
    await ask(bed, query === undefined ? STREAM : `${STREAM}?lastEventId=${query}`, {
      key: KEYS.owner,
      ...(header === undefined ? {} : { headers: { 'last-event-id': header } }),
    })
    const [{ of } = { of: undefined }] = bed.services.asked
    expect((of as { from?: { events: { version: number } } }).from?.events.version).toBe(want)
  },
)

test('a position that no message can have is rejected', async () => {
  const bed = await startServerBed()
  const headers = { 'last-event-id': '17' }
  for (const answer of [
    await ask(bed, STREAM, { key: KEYS.owner, headers }),
    await ask(bed, `${STREAM}?lastEventId=17`, { key: KEYS.owner }),
  ])
    expect([answer.status, answer.json.code]).toEqual([422, 'invalid'])
})

test('an open stream counts as answered, and takes no place of requests in progress', async () => {
  const bed = await startServerBed({ limits: { requests: 1, requestsPerOrganization: 1 } })
  const open = keepOpen(bed)
  await connect(bed)
  expect(bed.answered).toEqual([{ route: 'streamEvents', status: 200 }])
  await connect(bed)
  expect(open.length).toBe(2)
  expect((await ask(bed, `/organizations/${ORGANIZATION}/webhooks`, { key: KEYS.owner })).status).toBe(200)
  for (const connection of open) connection.end('')
  expect(bed.answered.filter(({ route }) => route === 'streamEvents').length).toBe(2)
})

test('the stream learns that its client has gone, and can ask whether it may still read', async () => {
  const bed = await startServerBed()
  const open = keepOpen(bed)
  const client = await connect(bed)
  const [connection] = open
  await expect(connection?.authorize()).resolves.toBeUndefined()
  let isClosed = false
  connection?.onClose(() => {
    isClosed = true
  })
  client.close()
  await until(
    async () => isClosed || undefined,
    () => 'the stream goes on',
  )
})

test('a HEAD request gets the head, and no stream', async () => {
  const bed = await startServerBed()
  const open = keepOpen(bed)
  const answer = await ask(bed, STREAM, { method: 'HEAD', key: KEYS.owner })
  expect([answer.status, answer.headers.get('content-type'), open.length]).toEqual([
    200,
    'text/event-stream',
    0,
  ])
})
