import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import type { LogSegment } from '../log/store.ts'
import type { OpenEntry, OpenSegment } from './endpoint-queue.ts'
import { OpenSegments } from './low-water-mark.ts'

function segment(version: number, deliveries: number, payload = '{}'): LogSegment {
  return {
    name: `segment-${version}`,
    version,
    writtenAt: 0,
    createdAt: 0,
    bytes: 1000,
    unreadable: 0,

    bodies: [payload],
    deliveries: Array.from({ length: deliveries }, (_, index) => ({
      index,
      eventIndex: 0,
      event: {
        id: `event-${version}`,
        namespace: 'acme',
        type: 'test.event',
        bodyBytes: payload.length,
        receivers: deliveries,
      },
      endpoint: { name: 'one', uid: 'uid' },
    })),
  }
}

function opened(segments: OpenSegments, of: LogSegment): OpenSegment {
  const found = segments.add(of)
  if (!found) throw new Error('it was not taken')
  return found
}

describe('the low-water mark', () => {
  it('moves past a segment when all its deliveries are closed', () => {
    const segments = new OpenSegments(5)
    const one = opened(segments, segment(10, 2))
    segments.close(one, 0)
    segments.close(one, 0)
    expect(segments.lowWater).toBe(5)
    segments.close(one, 1)
    expect(segments.lowWater).toBe(10)
    expect(segments.size).toBe(0)
  })

  it('waits for an older segment that is open', () => {
    const segments = new OpenSegments()
    const old = opened(segments, segment(10, 1))
    segments.close(opened(segments, segment(20, 1)), 0)
    expect(segments.lowWater).toBe(0)
    segments.close(old, 0)
    expect(segments.lowWater).toBe(20)
  })

  it('tells which entries are closed ahead of it, and believes nothing of a segment that it does not know', () => {
    const segments = new OpenSegments(5)
    opened(segments, segment(10, 1))
    segments.close(opened(segments, segment(20, 2)), 1)
    const isClosed = (version: number, index: number) => segments.isClosed({ version, index })
    expect([isClosed(5, 0), isClosed(10, 0), isClosed(20, 0), isClosed(20, 1)]).toEqual([
      true,
      false,
      false,
      true,
    ])
    expect(isClosed(15, 0)).toBe(false)
  })

  it('moves past a segment without a delivery', () => {
    const segments = new OpenSegments()
    opened(segments, segment(10, 0))
    expect(segments.lowWater).toBe(10)
  })

  it('keeps what is behind it, or known, from being taken again', () => {
    const segments = new OpenSegments(10)
    expect(segments.add(segment(10, 1))).toBeUndefined()
    expect(segments.add(segment(11, 1))).toBeDefined()
    expect(segments.add(segment(11, 1))).toBeUndefined()
  })

  it('never covers an open delivery, whatever comes and closes in whatever order', () => {
    const step = fc.oneof(
      fc.record({ deliveries: fc.integer({ min: 0, max: 3 }) }),
      fc.record({ closes: fc.nat() }),
      fc.record({ closes: fc.nat() }),
    )
    fc.assert(
      fc.property(fc.array(step, { maxLength: 100 }), (steps) => {
        const model = new Model()
        for (const one of steps) {
          if ('closes' in one) model.close(one.closes)
          else model.add(one.deliveries)
          model.check()
        }
      }),
    )
  })
})

function heldBy(segments: OpenSegments): OpenEntry[] {
  return segments.values().flatMap(({ open }) => [...open.values()])
}

/** The segments beside what is known of them. */
class Model {
  readonly #segments = new OpenSegments()
  readonly #all: { opened: OpenSegment; left: number }[] = []

  add(deliveries: number): void {
    const version = this.#all.length + 1
    this.#all.push({ opened: opened(this.#segments, segment(version, deliveries)), left: deliveries })
  }

  close(which: number): void {
    const open = this.#all.filter(({ left }) => left > 0)
    const one = open[which % Math.max(1, open.length)]
    if (!one) return
    one.left -= 1
    this.#segments.close(one.opened, one.left)
  }

  check(): void {
    const oldest = this.#all.findIndex(({ left }) => left > 0)
    const open = this.#all.reduce((sum, { left }) => sum + left, 0)
    expect(this.#segments.lowWater).toBe(oldest === -1 ? this.#all.length : oldest)
    expect(heldBy(this.#segments)).toHaveLength(open)
    expect(this.#segments.size).toBe(this.#all.length - this.#segments.lowWater)
  }
}

it('tells when no entry of an event is open', () => {
  const segments = new OpenSegments()
  const closed: string[] = []
  segments.onBodyClosed = ({ segment }) => closed.push(segment)
  opened(segments, segment(10, 1))
  const next = opened(segments, segment(20, 2, 'x'.repeat(1000)))
  expect([...next.bodies.values()]).toMatchObject([{ bytes: 1000, open: 2 }])
  segments.close(next, 0)
  expect([...next.open.values()].map(({ entry }) => entry.index)).toEqual([1])
  expect(closed).toEqual([])
  segments.close(next, 1)
  segments.close(next, 1)
  expect(closed).toEqual(['segment-20'])
})
