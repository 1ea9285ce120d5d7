import { describe, expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
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
        const needs = { parse: JSON.parse, clock, silenceMs: 90_000, maxLineBytes: 1_000 }
        for await (const _ of watchEvents(async () => stream, needs)) {
          if (leave) break
        }
      } catch {
        failed = true
      }
      expect([failed, stream.closed, clock.pending]).toEqual([fails, 1, 0])
    }
  })
})
