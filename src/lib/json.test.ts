import { describe, expect, it } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { parseJson } from './json.ts'

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
    const text = String.raw`{"~0~0":1,"\u007e1~0":2,"\n":{"\t":"~2~"}}`
    expect(parseJson(text)).toEqual({ '~0~0': 1, '~1~0': 2, '\n': { '\t': '~2~' } })
  })

  it.each([
    [String.raw`{"a":1,"\u0061":2,"a":3}`, '{"a":3}'],
    [String.raw`{"\u0061":1,"b":2,"a":3}`, '{"a":3,"b":2}'],
    [String.raw`{"\u0031":[],"1":""}`, '{"1":""}'],
    [String.raw`{"\u0022":1,"b":2,"\"":3}`, String.raw`{"\"":3,"b":2}`],
    [String.raw`{"b":1,"\u0031":2}`, '{"1":2,"b":1}'],
  ])('are the same however they are written: %s', (text, want) => {
    expect(JSON.stringify(parseJson(text))).toBe(want)
  })

  it('take no longer where the text is full of what could stand in for them', () => {
    const texts = ['~'.repeat(100_000), '~0~'.repeat(30_000), '~1'.repeat(50_000)]
    for (const filler of texts) {
      const text = `["${filler}",${'{"\\n":0},'.repeat(10_000)}0]`
      const value = parseJson(text) as unknown[]
      expect([value.length, value[0] === filler, value[1]]).toEqual([10_002, true, { '\n': 0 }])
    }
  })

  it('may stand deeper than a stack reaches', () => {
    const depth = 100_000
    let value = parseJson(`${'{"\\"":'.repeat(depth)}0${'}'.repeat(depth)}`)
    for (let level = 0; level < depth; level += 1) value = (value as Record<string, unknown>)['"']
    expect(value).toBe(0)
  })
})

/** A text of JSON, and what it stands for. */
type Written = { text: string; value: unknown }

it('is what is written, of anything, however names are written and however often', () => {
  const part = fc.constantFrom('"', '\\', '\n', '<', '~', '0', '1', 'a', ':', '{', '}', ' ', 'é', '__proto__')
  const name = fc
    .tuple(fc.array(fc.tuple(part, fc.boolean()), { maxLength: 3 }), fc.constantFrom('', ' '))
    .map(([parts, space]) => ({
      name: parts.map(([text]) => text).join(''),
      text: `"${parts.map(([text, escaped]) => (escaped ? escapedWhole(text) : escapedAsNeeded(text))).join('')}"${space}`,
    }))
  const leaf = fc.oneof(fc.string({ unit: part }), fc.integer(), fc.constant(null)).map(writtenOf)
  const { value } = fc.letrec<{ value: Written }>((tie) => ({
    value: fc.oneof(
      { depthSize: 'small' },
      leaf,
      fc.array(tie('value')).map((inside) => ({
        text: `[${inside.map(({ text }) => text).join()}]`,
        value: inside.map(({ value }) => value),
      })),
      fc.array(fc.tuple(name, tie('value')), { maxLength: 6 }).map((members) => ({
        text: `{${members.map(([name, inside]) => `${name.text}:${inside.text}`).join()}}`,
        value: objectOf(members.map(([{ name }, { value }]) => [name, value])),
      })),
    ),
  }))
  fc.assert(
    fc.property(value, ({ text, value }) => {
      expect(JSON.stringify(parseJson(text))).toBe(JSON.stringify(value))
    }),
    { numRuns: 2000 },
  )
})

it('is refused in the words of JSON.parse where it is none', () => {
  for (const text of ['', '{', '"', '{"\\"":}', '{"\\"', '{"a\\":1}', '{"\\x":1}', '{"\\"":1}}', '"\\']) {
    const said = wordsOf(() => JSON.parse(text))
    expect(said).toContain('JSON')
    expect(wordsOf(() => parseJson(text))).toBe(said)
  }
})

function writtenOf(value: unknown): Written {
  return { text: JSON.stringify(value), value }
}

function escapedWhole(text: string): string {
  return [...text].map((one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, '0')}`).join('')
}

function escapedAsNeeded(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

/** Of members of one name the last counts, where the first stands. */
function objectOf(members: readonly (readonly [string, unknown])[]): object {
  const object = {}
  for (const [name, value] of members)
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true })
  return object
}

function wordsOf(parse: () => unknown): string {
  try {
    parse()
  } catch (error) {
    return error instanceof SyntaxError ? error.message : String(error)
  }
  return 'nothing'
}
