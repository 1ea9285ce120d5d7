import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { parseChallenges } from './challenge.ts'

const plain = (...headers: string[]) =>
  parseChallenges(headers).map(({ scheme, parameters }) => [scheme, Object.fromEntries(parameters)])

const TABLE: readonly { given: string[]; want: unknown[] }[] = [
  { given: ['Basic realm="tests"'], want: [['basic', { realm: 'tests' }]] },
  { given: ['basic REALM=tests'], want: [['basic', { realm: 'tests' }]] },
  {
    given: [
      'Bearer realm="https://auth.test/token",service="registry.test",scope="repository:a/b:pull,push"',
    ],
    want: [
      [
        'bearer',
        { realm: 'https://auth.test/token', service: 'registry.test', scope: 'repository:a/b:pull,push' },
      ],
    ],
  },
  {
    given: ['Bearer realm="https://a.test/t" , error="insufficient_scope"'],
    want: [['bearer', { realm: 'https://a.test/t', error: 'insufficient_scope' }]],
  },
  {
    given: ['Basic realm="a", Bearer realm="b", service=c'],
    want: [
      ['basic', { realm: 'a' }],
      ['bearer', { realm: 'b', service: 'c' }],
    ],
  },
  {
    given: ['Bearer realm="b"', 'Basic realm="a"'],
    want: [
      ['bearer', { realm: 'b' }],
      ['basic', { realm: 'a' }],
    ],
  },
  {
    given: ['Negotiate, Basic realm="a"'],
    want: [
      ['negotiate', {}],
      ['basic', { realm: 'a' }],
    ],
  },
  {
    given: ['Negotiate YII3x==, Basic realm="a"'],
    want: [
      ['negotiate', {}],
      ['basic', { realm: 'a' }],
    ],
  },
  {
    given: ['Basic realm="a \\"quoted\\" one, and a comma"'],
    want: [['basic', { realm: 'a "quoted" one, and a comma' }]],
  },
  { given: ['Bearer realm = "b" , service = c'], want: [['bearer', { realm: 'b', service: 'c' }]] },
  { given: [', ,Basic realm="a",,'], want: [['basic', { realm: 'a' }]] },
  { given: ['Bearer realm="first",realm="second"'], want: [['bearer', { realm: 'first' }]] },
  { given: ['Basic'], want: [['basic', {}]] },
  // What follows what cannot be read may be part of it.
  { given: ['Bearer realm="b'], want: [] },
  { given: ['Bearer realm="b" service="c", Basic realm="a"'], want: [] },
  { given: ['Basic realm="a", Bearer realm="b'], want: [['basic', { realm: 'a' }]] },
  { given: ['"quoted" Basic'], want: [] },
  { given: [''], want: [] },
  { given: [], want: [] },
]

describe('challenges', () => {
  for (const { given, want } of TABLE)
    it(`are read in ${JSON.stringify(given)}`, () => expect(plain(...given)).toEqual(want))

  const token = fc.stringMatching(/^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,12}$/)
  const value = fc.string({ maxLength: 30 }).filter((text) => !/[\r\n\0]/.test(text))
  const challenge = fc.record({
    scheme: token,
    parameters: fc.uniqueArray(fc.tuple(token, value), {
      minLength: 1,
      maxLength: 4,
      selector: ([name]) => name.toLowerCase(),
    }),
  })
  const written = ({ scheme, parameters }: { scheme: string; parameters: [string, string][] }) =>
    `${scheme} ${parameters.map(([name, text]) => `${name}="${text.replace(/["\\]/g, '\\$&')}"`).join(', ')}`

  it('are what was written, however many there are in a header', () => {
    fc.assert(
      fc.property(fc.array(challenge, { maxLength: 5 }), (challenges) => {
        const want = challenges.map(({ scheme, parameters }) => [
          scheme.toLowerCase(),
          Object.fromEntries(parameters.map(([name, text]) => [name.toLowerCase(), text])),
        ])
        expect(plain(challenges.map(written).join(', '))).toEqual(want)
        expect(plain(...challenges.map(written))).toEqual(want)
      }),
    )
  })

  it('are read out of anything without an error, and bounded', () => {
    const pieces = fc.constantFrom('Bearer ', 'realm=', '"', '\\', ',', ' ', '=', 'a', 'Basic', '\t', 'ü')
    fc.assert(
      fc.property(fc.array(pieces, { maxLength: 60 }), (parts) => {
        expect(parseChallenges([parts.join('')]).length).toBeLessThanOrEqual(16)
      }),
    )
    expect(parseChallenges(['Basic realm="a", '.repeat(10_000)]).length).toBe(16)
  })
})
