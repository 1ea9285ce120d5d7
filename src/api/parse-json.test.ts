import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { parseJson } from './parse-json.ts'

/** Reads objects with these names, so that the engine knows them. */
function teach(...names: string[]) {
  for (const name of names) JSON.parse(`{"h":[],${JSON.stringify(name)}:0}`)
}

/** As the API server writes JSON: Go escapes what HTML gives a meaning. */
function asGoWrites(value: unknown): string {
  return JSON.stringify(value).replace(
    /[<>&]/g,
    (character) => `\\u00${character.charCodeAt(0).toString(16)}`,
  )
}

function namesOf(text: string): string[] {
  return Object.keys(parseJson(text) as object)
}

describe('names that are written with an escape', () => {
  it.each(['"', '\n', '<', '&', 'é"', '\u0000', '\\"'])(
    '%j is not taken for another that was read',
    (name) => {
      teach('\\', '\\u', '\\"', 'é\\', '\\\\')
      expect(namesOf(asGoWrites({ h: 1, [name]: 2 }))).toEqual(['h', name])
    },
  )

  it('keep their order, and of two that are the same the last one counts', () => {
    expect(JSON.stringify(parseJson(String.raw`{"z":0,"\u0061":1,"b":{"\"":[]},"a":2,"\u0062":3}`))).toBe(
      '{"z":0,"a":2,"b":3}',
    )
  })

  it('may stand before any white space', () => {
    expect(namesOf('{"h":1,"\\"" \t\r\n : 2}')).toEqual(['h', '"'])
  })

  it('may be any, also those that objects have', () => {
    const value = parseJson(String.raw`{"\u005f_proto__":{"a":1},"__proto__":2,"constructo\u0072":3}`)
    expect(Object.entries(value as object)).toEqual([
      ['__proto__', 2],
      ['constructor', 3],
    ])
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  })

  it('may look like what stands in for them', () => {
    const text = String.raw`{"~0":1,"~~0":"~1","\u007e~~":2,"\n":{"~~~0":3}}`
    expect(parseJson(text)).toEqual({ '~0': 1, '~~0': '~1', '~~~': 2, '\n': { '~~~0': 3 } })
  })

  it('may stand deeper than a stack reaches', () => {
    const depth = 100_000
    let value = parseJson(`${'{"\\"":'.repeat(depth)}0${'}'.repeat(depth)}`)
    for (let level = 0; level < depth; level += 1) value = (value as Record<string, unknown>)['"']
    expect(value).toBe(0)
  })
})

it('is what JSON.parse makes of it, of anything', () => {
  const text = fc.string({
    unit: fc.constantFrom('"', '\\', '\n', '<', '~', '0', 'a', ':', '{', '}', ' ', 'é'),
  })
  const { value } = fc.letrec((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      text,
      fc.integer(),
      fc.constant(null),
      fc.array(tie('value')),
      fc.array(fc.tuple(text, tie('value'))).map((members) => new Map(members)),
    ),
  }))
  fc.assert(
    fc.property(value, (value) => {
      const text = written(value)
      expect(rewritten(parseJson(text))).toEqual(text)
    }),
  )
})

it('is refused in the words of JSON.parse where it is none', () => {
  for (const text of ['', '{', '"', '{"\\"":}', '{"\\"', '{"a\\":1}', '{"\\x":1}', '{"\\"":1}}', '"\\']) {
    const said = wordsOf(() => JSON.parse(text))
    expect(said).toContain('JSON')
    expect(wordsOf(() => parseJson(text))).toBe(said)
  }
})

/** Names that look like numbers come first in an object, so they are told apart by a letter. */
function written(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(written).join()}]`
  if (value instanceof Map)
    return `{${[...value].map(([name, inside]) => `${JSON.stringify(`n${name}`)}:${written(inside)}`).join()}}`
  return JSON.stringify(value)
}

function rewritten(value: unknown): string {
  return JSON.stringify(value)
}

function wordsOf(parse: () => unknown): string {
  try {
    parse()
  } catch (error) {
    return error instanceof SyntaxError ? error.message : String(error)
  }
  return 'nothing'
}
