import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { sameJson, statusPatch } from './status.ts'

/** RFC 7386, section 2, word for word. */
function mergePatch(target: unknown, patch: unknown): unknown {
  if (typeof patch !== 'object' || patch === null || Array.isArray(patch)) return patch
  const base = typeof target === 'object' && target !== null && !Array.isArray(target) ? target : {}
  const fields = new Map(Object.entries(base))
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) fields.delete(name)
    else fields.set(name, mergePatch(fields.get(name), value))
  }
  return Object.fromEntries(fields)
}

/** What a status can hold: absent fields are absent, and arrays are what they are. */
function withoutAbsent(value: unknown): unknown {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return value
  const fields = Object.entries(value).filter(([, each]) => each !== null && each !== undefined)
  return Object.fromEntries(fields.map(([name, each]) => [name, withoutAbsent(each)]))
}

const { status } = fc.letrec((tie) => ({
  leaf: fc.oneof(
    fc.string({ maxLength: 3 }),
    fc.integer({ min: 0, max: 3 }),
    fc.boolean(),
    fc.constant(null),
    fc.constant(undefined),
    fc.array(fc.integer({ min: 0, max: 2 }), { maxLength: 3 }),
    fc.array(fc.record({ type: fc.constantFrom('Ready', 'Stalled') }), { maxLength: 2 }),
  ),
  status: fc.dictionary(
    fc.constantFrom('state', 'count', 'conditions', '__proto__', 'toString', 'inner'),
    fc.oneof({ maxDepth: 2, depthIdentifier: 'status' }, tie('leaf'), tie('status')),
    { maxKeys: 4, depthIdentifier: 'status' },
  ),
}))

describe('a status patch', () => {
  it('turns any status into any other by RFC 7386', () => {
    fc.assert(
      fc.property(status, status, (previous, desired) => {
        const stored = withoutAbsent(previous) as object
        const patch = statusPatch(stored, desired as object)
        // As it goes over the wire.
        const sent = patch === undefined ? {} : JSON.parse(JSON.stringify(patch))
        expect(mergePatch(stored, sent)).toEqual(withoutAbsent(desired))
      }),
      { numRuns: 500 },
    )
  })

  it('is nothing when nothing changed, whatever the order of fields', () => {
    fc.assert(
      fc.property(status, (same) => {
        const stored = withoutAbsent(same) as object
        const turned = Object.fromEntries(Object.entries(stored).reverse())
        expect(statusPatch(stored, turned)).toBeUndefined()
      }),
    )
  })

  const table = [
    { given: 'a changed field', from: { a: 1, b: 2 }, to: { a: 1, b: 3 }, want: { b: 3 } },
    { given: 'a field that is gone', from: { a: 1, b: 2 }, to: { a: 1 }, want: { b: null } },
    { given: 'a field set to undefined', from: { a: 1 }, to: { a: undefined }, want: { a: null } },
    { given: 'no status before', from: undefined, to: { a: { b: 1 } }, want: { a: { b: 1 } } },
    {
      given: 'a change deep inside',
      from: { a: { b: { c: 1, d: 2 } } },
      to: { a: { b: { c: 1, d: 3 } } },
      want: { a: { b: { d: 3 } } },
    },
    {
      given: 'an array with one changed element',
      from: { a: [{ x: 1 }, { x: 2 }] },
      to: { a: [{ x: 1 }, { x: 3 }] },
      want: { a: [{ x: 1 }, { x: 3 }] },
    },
    { given: 'a new empty object', from: {}, to: { a: {} }, want: { a: {} } },
    { given: 'an object that became empty', from: { a: { b: 1 } }, to: { a: {} }, want: { a: { b: null } } },
  ]
  it.each(table)('for $given sends no more than that', ({ from, to, want }) => {
    expect(statusPatch(from, to)).toEqual(want)
  })
})

describe('two values', () => {
  it.each([
    [1, 1],
    [null, null],
    [[], []],
    [
      [1, [2]],
      [1, [2]],
    ],
    [
      { a: 1, b: [{ c: 2 }] },
      { b: [{ c: 2 }], a: 1 },
    ],
    [{ a: 1, b: undefined }, { a: 1 }],
    [{ a: 1 }, { a: 1, b: undefined }],
  ])('mean the same: %j and %j', (a, b) => {
    expect(sameJson(a, b)).toBe(true)
    expect(statusPatch({ of: a }, { of: b })).toBeUndefined()
  })

  it.each([
    [1, '1'],
    [0, null],
    [
      [1, 2],
      [2, 1],
    ],
    [[1], [1, 2]],
    [[1, 2], [1]],
    [[1], { 0: 1 }],
    [{ 0: 1 }, [1]],
    [{}, []],
    [{}, null],
    [null, {}],
    [{ a: 1 }, { b: 1 }],
    [{ a: 1 }, { a: 1, b: 2 }],
    [{ a: 1, b: 2 }, { a: 1 }],
    [
      { a: 1, b: 2 },
      { a: 1, b: 3 },
    ],
    [{ a: undefined, b: 1 }, { a: 1 }],
    // Of the prototype, and not of its own.
    [{ toString: 1 }, {}],
  ])('do not mean the same: %j and %j', (a, b) => {
    expect(sameJson(a, b)).toBe(false)
    expect(sameJson(b, a)).toBe(false)
  })
})
