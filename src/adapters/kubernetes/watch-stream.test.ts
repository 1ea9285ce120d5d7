import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { fc } from '../../../test/support/fast-check.ts'
import type { OpenStream } from './transport.ts'
import { watchEvents } from './watch-stream.ts'

/** A stream of these chunks, each for itself, that counts how often it was closed. */
function streamOf(...chunks: string[]): OpenStream & { closed: number } {
  return {
    closed: 0,
    chunks: (async function* () {
      for (const chunk of chunks) yield [Buffer.from(chunk)]
    })(),
    close() {
      this.closed += 1
    },
  }
}

async function eventsOf(...lines: string[]) {
  const limits = { clock: new FakeClock(), silenceMs: 90_000, maxLineBytes: 100_000 }
  const events: unknown[] = []
  const stream = streamOf(...lines.map((line) => `${line}\n`))
  for await (const batch of watchEvents(async () => stream, limits)) events.push(...batch)
  return events
}

const event = '{"type":"ADDED","object":{"metadata":{"name":"a"}}}\n'

describe('the events of a stream', () => {
  it('close it and stop its timer when it ends, when it is left, and when it cannot be read', async () => {
    const ends = [
      { chunks: [event], leave: false, fails: false },
      { chunks: [event, event], leave: true, fails: false },
      { chunks: [event, 'garbage\n'], leave: false, fails: true },
    ]
    for (const { chunks, leave, fails } of ends) {
      const clock = new FakeClock()
      const stream = streamOf(...chunks)
      let failed = false
      try {
        const limits = { clock, silenceMs: 90_000, maxLineBytes: 1_000 }
        for await (const _ of watchEvents(async () => stream, limits)) {
          if (leave) break
        }
      } catch {
        failed = true
      }
      expect([failed, stream.closed, clock.pending]).toEqual([fails, 1, 0])
    }
  })
})

describe('a deletion', () => {
  const text = fc.oneof(fc.string(), fc.constantFrom(',"spec":', '"spec"', '}}', 'spec', '\\'))
  const inside = fc.dictionary(
    fc.constantFrom('spec', 'f:spec', 'metadata', 'note'),
    fc.oneof(text, fc.dictionary(text, text)),
  )

  it('is read up to the spec, whatever its metadata looks like, and is told with all of its metadata', async () => {
    const metadata = fc.record({
      name: fc.constant('a'),
      annotations: fc.dictionary(text, text),
      managedFields: inside,
    })
    await fc.assert(
      fc.asyncProperty(metadata, inside, inside, async (metadata, spec, status) => {
        const object = { apiVersion: 'v1', kind: 'Thing', metadata, spec, status }
        const [told] = await eventsOf(JSON.stringify({ type: 'DELETED', object }))
        expect(told).toMatchObject({
          type: 'DELETED',
          object: { kind: 'Thing', metadata: JSON.parse(JSON.stringify(metadata)) },
        })
      }),
    )
  })

  it('is told though its spec is never looked at', async () => {
    const [told] = await eventsOf('{"type":"DELETED","object":{"metadata":{"name":"a"},"spec":{whatever}}}')
    expect(told).toEqual({ type: 'DELETED', object: { metadata: { name: 'a' } } })
  })

  it('is read whole where it is sent in another order, or without a spec', async () => {
    const whole = [
      { spec: { a: 1 }, metadata: { name: 'a' } },
      { metadata: { name: 'a' }, data: { spec: '1' } },
      { kind: 'Thing', spec: { spec: {} }, metadata: { name: 'a' } },
    ]
    expect(await eventsOf(...whole.map((object) => JSON.stringify({ type: 'DELETED', object })))).toEqual(
      whole.map((object) => ({ type: 'DELETED', object })),
    )
  })

  it('that is no JSON, or has no metadata, breaks the watch as any other event does', async () => {
    for (const line of [
      '{"type":"DELETED","object":{"metadata":{"name":}},"spec":{}}}',
      '{"type":"DELETED","spec":{}}',
    ])
      await expect(eventsOf(line)).rejects.toThrow('not a watch event')
  })
})
