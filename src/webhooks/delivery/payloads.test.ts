import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import type { SegmentBodies } from '../log/segment-bodies.ts'
import { type EventBody, Payloads } from './payloads.ts'

/** What an event costs besides the bytes of its body. */
const OVERHEAD = 200

function body(segment: string, bytes: number): EventBody {
  return { segment, event: 0, bytes, open: 1, buffer: undefined }
}

function start(maxBytes: number) {
  const read: string[] = []
  const segments: Pick<SegmentBodies, 'read' | 'bytes'> = {
    bytes: 0,
    read: async ({ segment }, organization) => {
      read.push(`${segment} for ${organization}`)
      return Buffer.from('read')
    },
  }
  return { payloads: new Payloads(maxBytes, segments), read }
}

describe('the bodies in memory', () => {
  it('are sent as they are, and read again when they are gone', async () => {
    const { payloads, read } = start(10_000)
    const one = body('s1', 5)
    payloads.keep(one, 'größe'.slice(0, 4))
    expect((await payloads.read(one, 'acme'))?.toString()).toBe('größ')
    payloads.drop(one)
    payloads.drop(one)
    expect(payloads.bytes).toBe(0)
    expect((await payloads.read(one, 'acme'))?.toString()).toBe('read')
    expect(read).toEqual(['s1 for acme'])
  })

  it('are not kept for an event that has ended', () => {
    const { payloads } = start(10_000)
    const ended = { ...body('s1', 5), open: 0 }
    payloads.keep(ended, 'ended')
    expect([ended.buffer, payloads.bytes]).toEqual([undefined, 0])
  })

  it('give way from the largest, and of these the newest', () => {
    const { payloads } = start(3 * (1000 + OVERHEAD) + 2 * (10 + OVERHEAD))
    const small = [body('small', 10), body('small', 10)]
    const large = ['a', 'b', 'c', 'd'].map((name) => body(name, 1000))
    for (const one of [...large, ...small]) payloads.keep(one, 'x'.repeat(one.bytes))
    expect(large.filter(({ buffer }) => buffer).map(({ segment }) => segment)).toEqual(['a', 'b', 'c'])
    expect(small.every(({ buffer }) => buffer)).toBe(true)
    const another = body('e', 1000)
    payloads.keep(another, 'x'.repeat(1000))
    expect(another.buffer).toBeUndefined()
  })

  it('never take more than they may, and exactly what is kept', () => {
    const sizes = fc.array(fc.nat({ max: 3000 }), { minLength: 1, maxLength: 100 })
    const step = fc.record({ drops: fc.boolean(), at: fc.nat() })
    fc.assert(
      fc.property(sizes, fc.array(step, { maxLength: 300 }), (bytes, steps) => {
        const { payloads } = start(8000)
        const all = bytes.map((size) => body('s', size))
        for (const { drops, at } of steps) {
          const one = all[at % all.length] as EventBody
          if (drops) payloads.drop(one)
          else payloads.keep(one, 'x'.repeat(one.bytes))
          expect(payloads.bytes).toBe(bytesOf(all))
          expect(payloads.bytes).toBeLessThanOrEqual(8000)
        }
      }),
    )
  })
})

function bytesOf(bodies: readonly EventBody[]): number {
  const kept = bodies.filter(({ buffer }) => buffer !== undefined)
  return kept.reduce((sum, { bytes }) => sum + bytes + OVERHEAD, 0)
}
