import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { ApiError, type RawObject, type ResourceWriter } from './client.ts'
import { AggregatingRecorder, eventObject, microTime, type RecordedEvent, truncateUtf8 } from './recorder.ts'

const endpoint: RawObject = {
  apiVersion: 'davit.dev/v1alpha1',
  kind: 'WebhookEndpoint',
  metadata: { name: 'billing', namespace: 'acme', uid: 'u-1', resourceVersion: '7', labels: { a: 'b' } },
  spec: { url: 'https://example.com' },
}
const disabled: RecordedEvent = { type: 'Warning', reason: 'Disabled', message: 'after 5 failures' }

function start() {
  const clock = new FakeClock()
  const created: RawObject[] = []
  const patched: [string, object][] = []
  const lines: string[] = []
  const faults: (Error | undefined)[] = []
  const fail = () => {
    const fault = faults.shift()
    if (fault) throw fault
  }
  const api: ResourceWriter = {
    async create(_, object) {
      fail()
      created.push(object)
      return object
    },
    async patch(_, ref, patch) {
      fail()
      patched.push([`${ref.namespace}/${ref.name}`, patch])
      return { metadata: { name: ref.name } }
    },
    async delete() {},
  }
  let count = 0
  const bytes = (length: number) => {
    count += 1
    return new Uint8Array(length).fill(count)
  }
  const told: unknown[] = []
  const write = (_event: string, message: string, fields?: Record<string, unknown>) =>
    void (fields?.reason === undefined ? lines.push(message) : told.push(fields))
  const log = { info: write, warn: write, error() {} }
  const random = { fraction: () => 0, bytes }
  const drops: string[] = []
  const metrics = { kubernetesEventDropped: (reason: string) => void drops.push(reason) }
  const recorder = new AggregatingRecorder({ api, reporter: 'davit-0', clock, random, log, metrics })
  return { clock, created, patched, lines, told, faults, drops, recorder }
}

describe('an event recorder', () => {
  it('tells the log of an Event once, however often it is repeated', async () => {
    const { recorder, told } = start()
    recorder.record(endpoint, disabled)
    recorder.record(endpoint, disabled)
    await recorder.drain()
    expect(told).toEqual([
      {
        reason: 'Disabled',
        what: 'after 5 failures',
        kind: 'WebhookEndpoint',
        namespace: 'acme',
        name: 'billing',
      },
    ])
  })

  it('writes an Event about the object, in its namespace', async () => {
    const { recorder, created } = start()
    recorder.record(endpoint, disabled)
    await recorder.drain()
    expect(created).toEqual([
      {
        apiVersion: 'events.k8s.io/v1',
        kind: 'Event',
        metadata: { name: 'billing.0101010101010101', namespace: 'acme' },
        eventTime: '2026-01-31T12:00:00.000000Z',
        reportingController: 'davit',
        reportingInstance: 'davit-0',
        action: 'Reconcile',
        type: 'Warning',
        reason: 'Disabled',
        note: 'after 5 failures',
        regarding: {
          apiVersion: 'davit.dev/v1alpha1',
          kind: 'WebhookEndpoint',
          namespace: 'acme',
          name: 'billing',
          uid: 'u-1',
          resourceVersion: '7',
        },
      },
    ])
  })

  it('writes about a cluster-scoped object in the namespace default', async () => {
    const { recorder, created } = start()
    recorder.record({ kind: 'EventType', metadata: { name: 'a.b' } }, disabled)
    await recorder.drain()
    expect(created[0]?.metadata).toMatchObject({ namespace: 'default' })
  })

  it('counts a repeat on the same Event, and takes another message for another Event', async () => {
    const { clock, recorder, created, patched } = start()
    recorder.record(endpoint, disabled)
    await recorder.drain()
    for (let repeat = 0; repeat < 3; repeat += 1) {
      clock.advance(1_000)
      recorder.record(endpoint, disabled)
      await recorder.drain()
    }
    recorder.record(endpoint, { ...disabled, message: 'another' })
    await recorder.drain()
    expect(created).toHaveLength(2)
    expect(patched.at(-1)).toEqual([
      'acme/billing.0101010101010101',
      { series: { count: 4, lastObservedTime: '2026-01-31T12:00:03.000000Z' } },
    ])
  })

  it('shares one write among repeats that come while it waits', async () => {
    const { recorder, created, patched } = start()
    for (let repeat = 0; repeat < 40; repeat += 1) recorder.record(endpoint, disabled)
    await recorder.drain()
    expect([created.length, patched.length]).toEqual([1, 1])
    expect(patched[0]?.[1]).toMatchObject({ series: { count: 40 } })
    // It was one write of the 25 that the object has.
    recorder.record(endpoint, { ...disabled, message: 'another' })
    await recorder.drain()
    expect(created).toHaveLength(2)
  })

  it('writes a new Event for what happens again after a long while', async () => {
    const { clock, recorder, created } = start()
    recorder.record(endpoint, disabled)
    await recorder.drain()
    clock.advance(600_000)
    recorder.record(endpoint, disabled)
    await recorder.drain()
    expect(created).toHaveLength(2)
  })

  it('writes a new Event when the old one is gone', async () => {
    const { recorder, created, patched, faults } = start()
    recorder.record(endpoint, disabled)
    await recorder.drain()
    faults.push(new ApiError('NotFound', 'gone'))
    recorder.record(endpoint, disabled)
    await recorder.drain()
    recorder.record(endpoint, disabled)
    await recorder.drain()
    expect(created).toHaveLength(2)
    expect(patched.at(-1)?.[1]).toMatchObject({ series: { count: 2 } })
  })

  it('writes at most 25 at once about one object and then one in 5 minutes, whatever they say', async () => {
    const { clock, recorder, created } = start()
    const say = async (from: number, to: number) => {
      for (let number = from; number < to; number += 1) {
        recorder.record(endpoint, { ...disabled, message: `message ${number}` })
        await recorder.drain()
      }
    }
    await say(0, 40)
    expect(created).toHaveLength(25)
    clock.advance(300_000)
    await say(40, 50)
    expect(created).toHaveLength(26)
    recorder.record({ ...endpoint, metadata: { ...endpoint.metadata, uid: 'u-2' } }, disabled)
    await recorder.drain()
    expect(created).toHaveLength(27)
  })

  it('writes at most 100 at once and then ten a second, in turns by namespace', async () => {
    const { clock, recorder, created } = start()
    const say = (namespace: string, count: number) => {
      for (let number = 0; number < count; number += 1)
        recorder.record({ kind: 'X', metadata: { namespace, name: `n${number}` } }, disabled)
    }
    say('loud', 300)
    await settle()
    expect(created).toHaveLength(100)
    say('quiet', 3)
    for (let step = 0; step < 6; step += 1) await clock.elapse(100)
    expect(created.slice(100).map(({ metadata }) => metadata.namespace)).toEqual([
      'loud',
      'quiet',
      'loud',
      'quiet',
      'loud',
      'quiet',
    ])
    await recorder.drain()
    expect(created).toHaveLength(303)
  })

  it('goes on after a write that failed, and complains at most once a minute', async () => {
    const { clock, recorder, created, lines, faults } = start()
    const no = new ApiError('Forbidden', 'no')
    faults.push(no, no)
    for (const message of ['one', 'two', 'three']) recorder.record(endpoint, { ...disabled, message })
    await recorder.drain()
    expect(created.map((event) => event.note)).toEqual(['three'])
    expect(lines).toHaveLength(1)
    clock.advance(60_000)
    faults.push(no)
    recorder.record(endpoint, { ...disabled, message: 'four' })
    await recorder.drain()
    expect(lines).toHaveLength(2)
  })
})

describe('a flood of Events', () => {
  const say = (recorder: AggregatingRecorder, namespace: string, count: number) => {
    for (let number = 0; number < count; number += 1)
      recorder.record({ kind: 'X', metadata: { namespace, name: `n${number}` } }, disabled)
  }
  /** Events by namespace. */
  const counted = (created: readonly RawObject[]) => {
    const counts: Record<string, number> = {}
    for (const { metadata } of created)
      counts[metadata.namespace ?? ''] = (counts[metadata.namespace ?? ''] ?? 0) + 1
    return counts
  }

  it.each([
    { floods: { loud: 5_000 } },
    { floods: { loud: 2_000, louder: 4_000 } },
    { floods: { a: 1_500, b: 1_500, c: 1_500, d: 1_500 } },
    { floods: Object.fromEntries(Array.from({ length: 15 }, (_, i) => [`ns-${i}`, 500])) },
  ])('of $floods drops none of a namespace with few', async ({ floods }) => {
    const { clock, recorder, created, drops } = start()
    for (const [namespace, count] of Object.entries(floods)) say(recorder, namespace, count)
    await settle()
    say(recorder, 'quiet', 50)
    for (const [namespace, count] of Object.entries(floods)) say(recorder, namespace, count)
    // Ten a second for all, in turns.
    const namespaces = Object.keys(floods).length + 1
    for (let step = 0; step < 50 * namespaces; step += 1) await clock.elapse(100)
    expect(counted(created).quiet).toBe(50)
    await recorder.drain()
    expect(created.length).toBeLessThanOrEqual(100 + 50 * namespaces + 1_000)
    expect(new Set(drops)).toEqual(new Set(['queue_full']))
  })

  it('of one object is counted as what its limit dropped, and a repeat of what was written is not', async () => {
    const { recorder, drops } = start()
    for (let number = 0; number < 30; number += 1)
      recorder.record(endpoint, { ...disabled, message: `message ${number}` })
    await recorder.drain()
    expect(drops).toEqual(Array.from({ length: 5 }, () => 'object_limit'))
    recorder.record(endpoint, { ...disabled, message: 'message 0' })
    expect(drops).toHaveLength(5)
  })

  it('that the API server rejects is counted as well', async () => {
    const { recorder, drops, faults } = start()
    faults.push(new ApiError('Forbidden', 'no'), undefined, new ApiError('Unavailable', 'later'))
    for (const message of ['one', 'two', 'three']) recorder.record(endpoint, { ...disabled, message })
    await recorder.drain()
    expect(drops).toEqual(['write_failed', 'write_failed'])
  })

  it('that is dropped leaves nothing behind: what waits is what is written', async () => {
    const { recorder, created, drops } = start()
    say(recorder, 'loud', 3_000)
    say(recorder, 'quiet', 400)
    await recorder.drain()
    expect(created.length + drops.length).toBe(3_400)
    expect(counted(created).quiet).toBe(400)
  })
})

describe('an Event', () => {
  it('has a name that the API server takes, however long the object’s is', () => {
    const at = { now: 0, suffix: '0011223344556677', instance: 'x'.repeat(300) }
    const name = `${'a'.repeat(235)}.b-${'c'.repeat(15)}`
    const event = eventObject({ metadata: { name } }, { ...disabled, message: 'é'.repeat(2_000) }, at)
    expect(event.metadata.name).toMatch(/^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/)
    expect(event.metadata.name.length).toBeLessThanOrEqual(253)
    expect(Buffer.byteLength(String(event.note))).toBe(1_024)
    expect(String(event.reportingInstance)).toHaveLength(128)
  })

  it('is cut between characters and stamped in microseconds', () => {
    expect(truncateUtf8('aé𝄞', 7)).toBe('aé𝄞')
    expect([6, 5, 4, 3, 2, 1].map((most) => truncateUtf8('aé𝄞', most))).toEqual([
      'aé',
      'aé',
      'aé',
      'aé',
      'a',
      'a',
    ])
    expect(microTime(1)).toBe('1970-01-01T00:00:00.001000Z')
  })
})
