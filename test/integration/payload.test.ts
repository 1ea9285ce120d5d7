/** The bytes of the body: what was published, to the byte, on every attempt, however large (interface §4.2, §5.5). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { API_VERSION } from '../../src/apis/meta.ts'
import { MAX_DATA_BYTES, webhookEvents } from '../../src/apis/webhook-event.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type ReceivedRequest, type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'

/** Data as JSON text of exactly so many bytes; the filler has characters of one to four bytes. */
function dataOf(bytes: number, mark: string): string {
  const head = `{"mark":"${mark}","filler":"`
  const room = bytes - Buffer.byteLength(head) - 2
  const filler = 'aé€😀'.repeat(Math.floor(room / 10))
  return `${head}${filler}${'z'.repeat(room - Buffer.byteLength(filler))}"}`
}

const PAYLOADS = [
  { what: 'escapes', data: String.raw`{"a":"\u00e9\n\t\"\\\/\u0000\u001f","b":"é","\u0063":1}` },
  { what: 'characters outside of the first plane', data: '{"emoji":"😀👩‍👩‍👧","flag":"🇫🇷","𝄞":"𠮷"}' },
  { what: 'line separators that are no line breaks in JSON', data: '"\u2028\u2029\u0085\ufeff\u00a0"' },
  { what: 'escapes of half characters', data: String.raw`["\ud83d","\ude00","\ude00\ud83d","\uDFFF"]` },
  { what: 'white space between values', data: '{ "a" :\r\n\t[ 1 ,\n2 ] }' },
  { what: 'numbers that no double holds', data: '[9007199254740993,1.0,1e400,-0,0.1e-7]' },
  { what: 'names that mean something to a program', data: '{"__proto__":3,"constructor":4,"toString":{}}' },
  { what: '17 KiB', data: dataOf(17 * 1024, 'small') },
  { what: '200 KiB', data: dataOf(200 * 1024, 'large') },
  { what: '256 KiB', data: dataOf(256 * 1024, 'largest') },
  // In the segment, as text in JSON, each of these takes two bytes.
  { what: '256 KiB of what JSON escapes', data: `"${'\\\\'.repeat(128 * 1024 - 1)}"` },
]
const LARGE = PAYLOADS.filter(({ data }) => data.length > 16 * 1024)

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('payload')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** The body has exactly these data, and the signature is one of `secret` over the body. */
function expectExact(
  request: ReceivedRequest | undefined,
  want: { type: string; data: string; secret: string },
) {
  const body = request?.body ?? Buffer.alloc(0)
  const [, timestamp = ''] = /^\{"type":"[^"]*","timestamp":"([^"]*)"/.exec(body.toString('latin1')) ?? []
  expect(Date.parse(timestamp)).not.toBeNaN()
  const expected = Buffer.from(`{"type":"${want.type}","timestamp":"${timestamp}","data":${want.data}}`)
  // A difference in 256 KiB is not to be printed.
  expect({ bytes: body.length, same: body.equals(expected) }).toEqual({ bytes: expected.length, same: true })
  if (request) verifyWebhook(request, want.secret)
}

describe('the bytes of a body', () => {
  async function endpoint(name: string): Promise<{ type: string; secret: string; path: string }> {
    const type = await ownEventType(davit)
    const spec = { url: `${receiver.url}/${name}`, eventTypes: [type] }
    const { secret } = await davit.endpoint(name, spec)
    return { type, secret, path: `/${name}` }
  }

  test.for(PAYLOADS.map((payload, i) => ({ ...payload, i })))('$what', async ({ data, i }) => {
    const { type, secret, path } = await endpoint(`payload-${i}`)
    const event = await davit.publish(type, data)
    expect(event.status?.state).not.toBe('refused')
    const [request] = await receiver.waitFor(1, { path })
    expectExact(request, { type, data, secret })
  })

  test('an object keeps the names of its members, whatever names others had', async () => {
    const { type, secret, path } = await endpoint('names')
    // An API server writes those with an escape that mean something in HTML, too. The first two are what the others could be taken for.
    const names = ['\\', '\\u', '"', '<', '&', '>é']
    for (const [index, name] of names.entries()) {
      const data = { '!': index < 2 ? [] : index, [name]: 1 }
      const event = await davit.publish(type, '', { dataText: undefined, data })
      const requests = await receiver.waitFor(index + 1, { path })
      const request = requests.find(({ headers }) => headers['webhook-id'] === event.status?.eventId)
      expectExact(request, { type, data: JSON.stringify(data), secret })
    }
  })

  test('large ones are the same bytes in retries, and so they are after a restart', async () => {
    const { type, secret, path } = await endpoint('restart')
    receiver.answer(path, { status: 500 })
    for (const { data } of LARGE) await davit.publish(type, data)
    await driveToAttempt(davit, 'restart', 1, LARGE.length)
    const first = receiver.received(path).slice()
    await davit.restart()
    receiver.answer(path, {})
    const ended = await driveToEnd(davit, 'restart', LARGE.length)
    expect(ended.map(({ status }) => status?.state)).toEqual(LARGE.map(() => 'succeeded'))
    expect(ended.map(({ spec }) => spec.payloadRef?.segment)).not.toContain(undefined)
    const again = receiver.received(path).slice(first.length)
    expect(again).toHaveLength(first.length)
    for (const before of first) {
      const after = again.find(({ headers }) => headers['webhook-id'] === before.headers['webhook-id'])
      expect(after?.body.equals(before.body)).toBe(true)
    }
    for (const { data } of LARGE) {
      const found = again.find(({ body }) => body.includes(data.slice(0, 24)))
      expectExact(found, { type, data, secret })
    }
  })

  test('large ones are the same bytes when they are delivered again, after a restart as well', async () => {
    const { type, secret, path } = await endpoint('again')
    const events = []
    for (const { data } of LARGE) events.push(await davit.publish(type, data))
    await receiver.waitFor(LARGE.length, { path })
    await davit.restart()
    const asked = events.map(({ status }) => `${status?.eventId}@${davit.time()}`).join(',')
    await davit.annotate('again', { 'davit.dev/redeliver-requested': asked })
    const requests = await receiver.waitFor(2 * LARGE.length, { path })
    const ids = events.map(({ status }) => status?.eventId)
    for (const [i, { data }] of LARGE.entries()) {
      const original = requests.find(({ headers }) => headers['webhook-id'] === ids[i])
      const again = requests.find(
        ({ headers, body }) =>
          !ids.includes(String(headers['webhook-id'])) && body.equals(original?.body ?? body),
      )
      expectExact(again, { type, data, secret })
    }
  })
})

describe('one byte more than 256 KiB is refused, and says how much there may be:', () => {
  test('as text by the API server', async () => {
    const data = dataOf(MAX_DATA_BYTES + 1, 'text').replaceAll('aé€😀', 'z'.repeat(10))
    await expect(davit.publish(await ownEventType(davit), data)).rejects.toThrow(/spec\.dataText.*262144/)
  })

  test('as text of fewer characters than bytes by Davit', async () => {
    const event = await davit.publish(await ownEventType(davit), dataOf(MAX_DATA_BYTES + 1, 'text'))
    expect(event.status?.state).toBe('refused')
    expect(event.status?.conditions?.[0]).toMatchObject({
      type: 'Ready',
      status: 'False',
      reason: 'TooLarge',
    })
    expect(event.status?.conditions?.[0]?.message).toMatch(/256 KiB|262144|262,144/)
  })

  test('as an object by Davit', async () => {
    const type = await ownEventType(davit)
    const data = JSON.parse(dataOf(MAX_DATA_BYTES + 1, 'object')) as unknown
    await davit.api.create(webhookEvents, {
      apiVersion: API_VERSION,
      kind: 'WebhookEvent',
      metadata: { name: 'too-large', namespace: davit.organization },
      spec: { type, data },
    })
    const event = await davit.eventWhen('too-large', ({ status }) => status?.state !== undefined)
    expect(event.status).toMatchObject({
      state: 'refused',
      conditions: [expect.objectContaining({ type: 'Ready', reason: 'TooLarge' }), expect.anything()],
    })
  })
})
