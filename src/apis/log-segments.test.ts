import { expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { deliverySegment, readDeliverySegment } from './delivery-segment.ts'
import type { RawLogObject } from './meta.ts'
import { outcomeSegment, readOutcomeSegment } from './outcome-segment.ts'

/** Mostly right, and now and then something else. */
function mostly<T>(right: fc.Arbitrary<T>): fc.Arbitrary<unknown> {
  const odd = fc.oneof(
    fc.constantFrom(undefined, null, '', '\u{1f600}', -1, 0.5, 2 ** 60, {}, []),
    fc.string(),
  )
  return fc.oneof({ weight: 30, arbitrary: right }, { weight: 1, arbitrary: odd })
}

const text = fc.string({ minLength: 2, maxLength: 130, unit: 'binary' })
const metadata = mostly(
  fc.record({
    name: mostly(fc.constant('a')),
    resourceVersion: mostly(fc.constant('7')),
    creationTimestamp: mostly(fc.constant('2026-01-31T12:00:00Z')),
    labels: fc.constant({ a: 'b' }),
  }),
)
const writtenAt = mostly(fc.nat())
const writer = mostly(text)
const events = mostly(fc.array(mostly(text), { minLength: 1, maxLength: 3 }))

function readOr(read: () => unknown): unknown {
  try {
    return read()
  } catch {
    return 'none'
  }
}

type Kind = {
  kind: string
  spec: fc.Arbitrary<unknown>
  read(raw: RawLogObject): unknown
  schema: { parse(raw: unknown): unknown }
}

const kinds: Kind[] = [
  {
    kind: 'accepted events',
    spec: fc.record({ writtenAt, writer, events, deliveries: mostly(text) }),
    read: readDeliverySegment,
    schema: deliverySegment,
  },
  {
    kind: 'outcomes',
    spec: fc.record({
      writtenAt,
      writer,
      lowWater: mostly(fc.nat().map(String)),
      records: mostly(fc.string({ minLength: 4, maxLength: 20 })),
    }),
    read: readOutcomeSegment,
    schema: outcomeSegment,
  },
]

it.each(kinds)('a segment of $kind is read as its schema says, usual or not', ({ spec, read, schema }) => {
  let usual = 0
  fc.assert(
    fc.property(metadata, mostly(spec), (metadata, spec) => {
      const raw = { metadata, spec }
      const found = readOr(() => read(raw))
      expect(found).toEqual(readOr(() => schema.parse(raw)))
      if (found !== 'none') usual += 1
    }),
  )
  expect(usual).toBeGreaterThan(0)
})
