import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { refusalOf } from '../../../test/support/refusal-of.ts'
import { FakeStreamClient } from '../../../test/support/stream-client.ts'
import { Problem } from '../http/problems.ts'
import { EventStreams, registerStreamGauges, type StreamMessages } from './event-streams.ts'
import { MessageBuffer } from './message-buffer.ts'
import { parseStreamPosition, type StreamPosition } from './position.ts'

const KIB = 1024

/** Streams over a buffer that the test fills. */
class Bed implements StreamMessages {
  readonly clock = new FakeClock()
  onMessages: StreamMessages['onMessages']
  #buffer = this.#newBuffer()
  #version = 100
  readonly streams = new EventStreams({
    messages: this,
    clock: this.clock,
    random: { fraction: () => 0.5 },
  })

  constructor() {
    this.#buffer.seenUpTo('events', this.#version)
  }

  messageBuffer(): MessageBuffer {
    return this.#buffer
  }

  async currentVersion(): Promise<number> {
    return 1000
  }

  #newBuffer(): MessageBuffer {
    const onNews = (organization: string | undefined) => this.onMessages?.(organization)
    return new MessageBuffer({ maxBytes: 256 * KIB, onNews })
  }

  /** Everything is read again. */
  readAgain(): void {
    this.#buffer.close()
    this.#buffer = this.#newBuffer()
    this.#buffer.seenUpTo('events', this.#version)
  }

  async connect(from: StreamPosition | undefined, client = new FakeStreamClient(), organization = 'acme') {
    const start = await this.streams.open(organization, from)
    start(client)
    return client
  }

  connectNow(client = new FakeStreamClient(), organization = 'acme') {
    return this.connect(undefined, client, organization)
  }

  /** An event happens. @param bytes of its message */
  async happen(count = 1, { bytes = 100, organization = 'acme' } = {}): Promise<void> {
    for (let left = count; left > 0; left -= 1) {
      this.#version += 1
      const position = { version: this.#version, index: 0 }
      const data = JSON.stringify({ number: this.#version, padding: 'x'.repeat(bytes) })
      this.#buffer.add({ source: 'events', position, organization, type: 'event', render: () => data })
      this.#buffer.seenUpTo('events', this.#version)
    }
    await this.clock.elapse(20)
  }
}

function numbersOf({ reader }: FakeStreamClient): unknown[] {
  return reader.messages.map(({ data }) => data.number)
}

test('a client gets what happens from then on, and its position at once', async () => {
  const bed = new Bed()
  await bed.happen()
  const client = await bed.connectNow()
  expect(client.reader).toMatchObject({ heartbeats: 1, messages: [], lastId: '102-0-0', retryMs: 1500 })
  await bed.happen(2)
  expect(numbersOf(client)).toEqual([102, 103])
  expect(client.reader.lastId).toBe('103.1-0-0')
})

test('a client that continues gets what it has missed, and nothing of other organizations', async () => {
  const bed = new Bed()
  const first = await bed.connectNow()
  await bed.happen(2)
  await bed.happen(2, { organization: 'other' })
  first.close()
  await bed.happen(2)
  const client = await bed.connect(parseStreamPosition(first.reader.lastId))
  expect(numbersOf(first)).toEqual([101, 102])
  expect(numbersOf(client)).toEqual([105, 106])
})

test('a heartbeat comes every 15 seconds, with the position', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  await bed.happen(1, { organization: 'other' })
  await bed.clock.elapse(45_000)
  expect(client.reader.heartbeats).toBe(4)
  expect(client.reader.lastId).toBe('102-0-0')
})

test('a slow client takes no memory but a few chunks, and gets everything once it reads', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.isSlow = true
  await bed.happen(100, { bytes: KIB })
  await bed.clock.elapse(60_000)
  expect(client.unreadLength).toBeLessThan(40 * KIB)
  expect(client.isEnded).toBe(false)
  client.read()
  expect(numbersOf(client)).toEqual(Array.from({ length: 100 }, (_, index) => 101 + index))
})

test('a client that is too slow is disconnected, learns why, and cannot continue', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.isSlow = true
  await bed.happen(100, { bytes: KIB })
  await bed.happen(1000, { bytes: KIB })
  expect(client.isEnded).toBe(true)
  expect([bed.streams.size, bed.streams.dropped]).toEqual([0, 1])
  client.read()
  expect(client.reader.comments.join()).toContain('too slow')
  expect(bed.clock.pending).toBe(0)
  const from = parseStreamPosition(client.reader.lastId)
  expect(await refusalOf(bed.streams.open('acme', from))).toMatchObject({ code: 'cursor_expired' })
})

test('a client that leaves leaves nothing behind', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.close()
  expect([bed.streams.size, bed.clock.pending]).toEqual([0, 0])
  await bed.happen()
  expect(client.reader.messages).toEqual([])
})

test('the permission is checked every five seconds, and the stream ends without it', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  await bed.clock.elapse(60_000)
  expect([client.authorized, client.isEnded]).toEqual([12, false])
  client.denial = new Problem('forbidden')
  await bed.clock.elapse(5000)
  expect([client.isEnded, bed.streams.size, bed.clock.pending]).toEqual([true, 0, 0])
  expect(client.reader.comments.join()).toContain('API token')
})

test('while its permission cannot be checked, a stream gets no messages, and then those that it has missed', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.denial = new Problem('unavailable')
  await bed.clock.elapse(5000)
  await bed.happen(2)
  expect(numbersOf(client)).toEqual([])
  client.denial = undefined
  await bed.clock.elapse(5000)
  expect(numbersOf(client)).toEqual([101, 102])
})

test('a stream ends when its permission could not be checked for a minute', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.denial = new Problem('unavailable')
  await bed.clock.elapse(45_000)
  client.denial = undefined
  await bed.clock.elapse(15_000)
  client.denial = new Problem('overloaded')
  await bed.clock.elapse(59_000)
  expect(client.isEnded).toBe(false)
  await bed.clock.elapse(1000)
  expect([client.isEnded, bed.streams.size, bed.clock.pending]).toEqual([true, 0, 0])
})

test('a server that stops ends all streams, and new ones at once', async () => {
  const bed = new Bed()
  const clients = [await bed.connectNow(), await bed.connectNow(new FakeStreamClient(), 'other')]
  bed.streams.stop()
  clients.push(await bed.connectNow())
  expect(clients.map(({ isEnded }) => isEnded)).toEqual([true, true, true])
  expect([bed.streams.size, bed.clock.pending]).toEqual([0, 0])
})

test('a server that stops does not wait for a client that does not read', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  client.isSlow = true
  await bed.happen(100, { bytes: KIB })
  bed.streams.stop()
  expect([client.isAborted, bed.streams.size]).toEqual([true, 0])
})

test('its gauges say how many streams are open, how many were dropped, and what is kept for them', () => {
  const gauges = new Map<string, () => number | Record<string, number>>()
  const register = (name: string, _help: string, read: () => number | Record<string, number>) =>
    void gauges.set(name, read)
  registerStreamGauges(
    { gauge: register, total: register },
    { stats: () => ({ open: 1, dropped: 2, bytes: 3 }) },
  )
  expect(Object.fromEntries([...gauges].map(([name, read]) => [name, read()]))).toEqual({
    davit_streams_open: 1,
    davit_streams_limit: 500,
    davit_streams_dropped_total: 2,
    davit_stream_buffer_bytes: 3,
  })
})

test('when the log is read again, all streams end, and clients can continue', async () => {
  const bed = new Bed()
  const client = await bed.connectNow()
  await bed.happen()
  bed.readAgain()
  expect([client.isEnded, bed.streams.dropped]).toEqual([true, 0])
  await bed.connect(parseStreamPosition(client.reader.lastId))
  expect(bed.streams.size).toBe(1)
})

test('a position that no replica has reached is from before a restore; one that another replica has reached is not', async () => {
  const bed = new Bed()
  expect(await refusalOf(bed.streams.open('acme', parseStreamPosition('1002-1-1')))).toMatchObject({
    code: 'cursor_expired',
  })
  const client = await bed.connect(parseStreamPosition('103-1001-1001'))
  await bed.happen(4)
  expect(numbersOf(client)).toEqual([103, 104])
})

test('one organization cannot take all streams', async () => {
  const bed = new Bed()
  for (let count = 0; count < 200; count += 1) await bed.connectNow()
  expect(await refusalOf(bed.streams.open('acme', undefined))).toMatchObject({ code: 'rate_limited' })
  await bed.connectNow(new FakeStreamClient(), 'other')
  expect(bed.streams.size).toBe(201)
})

test('streams that are opened at the same time do not exceed the limit', async () => {
  const bed = new Bed()
  const starts = await Promise.all(Array.from({ length: 203 }, () => bed.streams.open('acme', undefined)))
  const clients = starts.map((start) => {
    const client = new FakeStreamClient()
    start(client)
    return client
  })
  expect(bed.streams.size).toBe(200)
  const ended = clients.filter(({ isEnded }) => isEnded)
  expect(ended.map(({ reader }) => reader.comments.join())).toEqual(
    Array.from({ length: 3 }, () => expect.stringContaining('Too many streams')),
  )
})
