import { type Node, parseTree } from 'jsonc-parser'
import { expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { elementMembers, MAX_JSON_DEPTH, readStrictJson, trimJson } from './strict-json.ts'

const RULES = { maxDepth: MAX_JSON_DEPTH, forbidden: '__proto__' }

function readJson(text: string) {
  const { json, fault } = readStrictJson(text, RULES)
  if (fault) throw new Error(fault.what)
  return json
}

function detailOf(text: string): string {
  const { fault } = readStrictJson(text, RULES)
  if (!fault) throw new Error(`${text} was taken`)
  return fault.place === '' ? fault.what : `${fault.what} at ${fault.place}`
}

test('any JSON without a fault is read as JSON.parse reads it, and each member keeps its text', () => {
  const members = fc.dictionary(
    fc.string().filter((name) => name !== '__proto__'),
    fc.jsonValue({ maxDepth: 6 }),
  )
  fc.assert(
    fc.property(members, fc.constantFrom(0, 1, 3), (value, indent) => {
      const text = JSON.stringify(value, undefined, indent)
      fc.pre(!text.includes('"__proto__"'))
      const json = readJson(text)
      expect(json.value).toEqual(JSON.parse(text))
      for (const name of Object.keys(value)) {
        const member = json.member(name) ?? ''
        expect(JSON.parse(member)).toEqual(JSON.parse(JSON.stringify(value[name])))
        expect(member).toBe(member.trim())
      }
      expect(json.member('no such member')).toBe(
        Object.hasOwn(value, 'no such member') ? expect.anything() : undefined,
      )
    }),
  )
})

test('no text breaks the reader: it is read, or refused as bad JSON exactly where JSON.parse refuses it', () => {
  const pieces = fc.array(
    fc.constantFrom(
      '{',
      '}',
      '[',
      ']',
      ',',
      ':',
      '"',
      '"a"',
      '"b"',
      '1',
      '-',
      'e',
      'null',
      ' ',
      '\n',
      '/*',
      '//',
      '\\',
    ),
    { maxLength: 12 },
  )
  fc.assert(
    fc.property(pieces, (parts) => {
      const text = parts.join('')
      let parses = true
      try {
        JSON.parse(text)
      } catch {
        parses = false
      }
      let read = true
      let detail = ''
      try {
        readJson(text)
      } catch (error) {
        read = false
        detail = (error as Error).message
      }
      if (read) expect(parses).toBe(true)
      else if (parses) expect(detail).toMatch(/^duplicate member/)
      else expect(detail).toMatch(/^JSON syntax error/)
    }),
    { numRuns: 2_000 },
  )
})

test.each([
  ['9007199254740993'],
  ['1e2'],
  ['1.0'],
  ['-0'],
  ['1E400'],
  ['"\\u0041\\/\\ud83d\\ude00"'],
  ['{ "b" : 1,\n "a":[ 1.10 , {"z":null} ] }'],
  ['null'],
])('the text of a member comes out as it went in: %s', (data) => {
  expect(readJson(`{"type": "a.b" ,"data":  ${data}  , "id":"x"}`).member('data')).toBe(data)
  expect(readJson(`{"data":${data}}`).member('data')).toBe(data)
})

test('a member that is named inside of another is not a member of the body', () => {
  expect(readJson('{"a":{"data":1}}').member('data')).toBeUndefined()
})

test.each([
  { given: '{"a":1,"a":2}', want: 'duplicate member "a" at line 1, column 8' },
  { given: '{"a":1,"\\u0061":2}', want: 'duplicate member "a" at line 1, column 8' },
  { given: '{"x":[{"b":1,\n"b":2}]}', want: 'duplicate member "b" at line 2, column 1' },
  { given: '{"__proto__":{}}', want: 'forbidden member name __proto__ at line 1, column 2' },
  { given: '{"\\u005f_proto__":1}', want: 'forbidden member name __proto__ at line 1, column 2' },
  { given: '{"a":1,}', want: 'JSON syntax error at line 1, column 8' },
  { given: '{"a":\n  tru}', want: 'JSON syntax error at line 2, column 3' },
  { given: "{'a':1}", want: 'JSON syntax error at line 1, column 2' },
  { given: '{"a":1} x', want: 'JSON syntax error at line 1, column 9' },
])('$given is refused: $want', ({ given, want }) => {
  expect(detailOf(given)).toBe(want)
})

test.each([
  ['/* a */ {}'],
  ['// a\n{}'],
  ['\ufeff{}'],
  ['{"a":"\n"}'],
  ['{"a":01}'],
  ['{"a":NaN}'],
  ['\u00a0{}'],
  [' '],
])('what only looks like JSON is refused: %j', (text) => {
  expect(detailOf(text)).toMatch(/^JSON syntax error/)
})

test('the same name in two objects is no repetition', () => {
  expect(readJson('{"a":{"b":1},"c":{"b":2},"b":[{"b":1},{"b":1}]}').value).toBeDefined()
})

test('depth ends at the limit, and far beyond it nothing overflows', () => {
  const nested = (depth: number) => '['.repeat(depth) + ']'.repeat(depth)
  expect(readJson(nested(MAX_JSON_DEPTH)).value).toBeDefined()
  expect(detailOf(nested(MAX_JSON_DEPTH + 1))).toBe('nested more than 100 levels deep at line 1, column 101')
  expect(detailOf('['.repeat(200_000))).toMatch(/levels deep/)
  expect(detailOf('{"a":'.repeat(40_000))).toMatch(/levels deep/)
  for (const piece of ['[}', '{]', '[}{', '{"a":[}', ',[]}']) {
    expect(detailOf(piece.repeat(30_000))).toMatch(/levels deep|JSON syntax error/)
  }
})

test('the text of a member of each element is as it was sent, with all digits of its numbers', () => {
  const text =
    '[ {"data" : 1.50e3 , "type":"a"}, {"type":"b"}, {"data":{"data":[{"data":1}]}}, {"data":"}]"} ]'
  expect(elementMembers(text, 'data')).toEqual(['1.50e3', undefined, '{"data":[{"data":1}]}', '"}]"'])
  expect(elementMembers('[]', 'data')).toEqual([])
})

test('the members of elements are those that JSON.parse finds, however the text is spaced', () => {
  const element = fc.dictionary(fc.constantFrom('data', 'type', '__proto'), fc.jsonValue(), {
    noNullPrototype: true,
  })
  const spaces = fc.constantFrom(0, 2)
  fc.assert(
    fc.property(fc.array(element, { maxLength: 8 }), spaces, (elements, indent) => {
      const body = JSON.stringify({ events: elements }, undefined, indent)
      const texts = elementMembers(readJson(body).member('events') ?? '', 'data')
      expect(texts).toHaveLength(elements.length)
      for (const [index, text] of texts.entries()) {
        const { data } = elements[index] ?? {}
        expect(text === undefined ? undefined : JSON.parse(text)).toEqual(
          data === undefined ? undefined : JSON.parse(JSON.stringify(data)),
        )
      }
    }),
  )
})

/** JSON as a person may write it: names twice or escaped, any spaces, any digits. */
const { value: written } = fc.letrec<{ value: string; members: string }>((tie) => {
  const space = fc.constantFrom('', '', ' ', '\n', '\t \r\n')
  const name = fc.constantFrom(
    '"a"',
    '"b"',
    '"\\u0061"',
    '"data"',
    '"__proto__"',
    '"\\""',
    '"a\\\\"',
    '""',
    '"},:["',
  )
  const scalar = fc.constantFrom(
    ...[
      '1',
      '-0',
      '1.50e3',
      '9007199254740993',
      'true',
      'null',
      '""',
      '"\\\\"',
      '"\\"}, \\"b\\": ["',
      '"é\\n"',
      '[]',
      '{}',
    ],
  )
  const spaced = (text: fc.Arbitrary<string>) => fc.tuple(space, text, space).map((parts) => parts.join(''))
  const listed = (text: fc.Arbitrary<string>) =>
    fc.array(text, { maxLength: 4 }).map((texts) => texts.join(','))
  const member = fc.tuple(spaced(name), spaced(tie('value'))).map((parts) => parts.join(':'))
  return {
    value: fc.oneof(
      { maxDepth: 4, withCrossShrink: true },
      scalar,
      listed(spaced(tie('value'))).map((texts) => `[${texts || ' '}]`),
      tie('members'),
    ),
    members: listed(member).map((texts) => `{${texts}}`),
  }
})

/** All members that another parser finds, in the order of the text, those of the outermost object with depth 1. */
function* membersOf(
  { type, children = [] }: Node,
  depth = 1,
): Generator<{ owner: Node[]; name: string; value: Node; depth: number }> {
  for (const child of children) {
    const [name, value] = child.children ?? []
    if (type === 'object' && name && value) {
      yield { owner: children, name: String(name.value), value, depth }
      yield* membersOf(value, depth + 1)
    } else yield* membersOf(child, depth + 1)
  }
}

function referenceOf(text: string) {
  const tree = parseTree(text)
  const all = tree ? [...membersOf(tree)] : []
  const names = new Map<Node[], Set<string>>()
  const faults = all.flatMap(({ owner, name, depth }) => {
    const known = names.get(owner) ?? new Set()
    const isKnown = known.has(name)
    names.set(owner, known.add(name))
    return [
      ...(depth === 1 && name === '__proto__' ? ['forbidden'] : []),
      ...(isKnown ? [`duplicate member ${JSON.stringify(name)}`] : []),
    ]
  })
  const outermost = all.filter(({ depth }) => depth === 1)
  const members = new Map(
    outermost.map(({ name, value: { offset, length } }) => [name, text.slice(offset, offset + length)]),
  )
  return { members, fault: faults[0] }
}

test('members, their texts and the first fault are those that another parser finds', () => {
  fc.assert(
    fc.property(written, (text) => {
      const { members, fault } = referenceOf(text)
      if (fault !== undefined) {
        expect(detailOf(text)).toMatch(fault)
        return
      }
      const json = readJson(text)
      expect(json.value).toEqual(JSON.parse(text))
      for (const name of ['a', 'b', 'data', '"', 'a\\', '', '},:[', 'none'])
        expect(json.member(name)).toBe(members.get(name))
    }),
    { numRuns: 2_000 },
  )
})

test('the members of elements are those that another parser finds', () => {
  fc.assert(
    fc.property(fc.array(written, { maxLength: 5 }), (values) => {
      const elements = values.filter((text) => text.startsWith('{') && referenceOf(text).fault === undefined)
      const want = elements.map((text) => referenceOf(text).members.get('data'))
      expect(elementMembers(`[ ${elements.join(' , ')}\n]`, 'data')).toEqual(want)
    }),
  )
})

test('a long string takes no longer than its length, whatever is in it', () => {
  for (const filler of ['\\\\', '\\"', 'a', '{', ':'])
    expect(readJson(`{"data":"${filler.repeat(400_000)}"}`).member('data')).toHaveLength(
      400_000 * filler.length + 2,
    )
})

test.each([
  { text: ' \t\r\n{"a": 1} \n', want: '{"a": 1}' },
  { text: '\u00a01\ufeff', want: '\u00a01\ufeff' },
  { text: ' \n', want: '' },
  { text: '', want: '' },
])('JSON has four sorts of spaces: %j', ({ text, want }) => {
  expect(trimJson(text)).toBe(want)
})
