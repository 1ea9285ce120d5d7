/** test/reports/rules.md names tests that exist. */
import { existsSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { problemsOf, rulesIn } from './rules/rules-page.ts'
import { isNameOf, testNamesIn } from './rules/test-names.ts'

const ROOT = fileURLToPath(new URL('..', import.meta.url))

function read(path: string): string | undefined {
  return existsSync(ROOT + path) ? readFileSync(ROOT + path, 'utf8') : undefined
}

describe('the page of rules', () => {
  const rows = rulesIn(read('test/reports/rules.md') ?? '')

  test('names for every rule a test that exists, or says that there is none', () => {
    expect(rows.flatMap((row) => problemsOf(row, read))).toEqual([])
  })

  test('has every rule once', () => {
    expect(rows.length).toBeGreaterThan(100)
    expect(new Set(rows.map(({ rule }) => rule)).size).toBe(rows.length)
  })
})

const FILE = `
describe.each(['a', 'b'])('with log %s', (log) => {
  test('it arrives', () => {})
  test("it doesn't arrive", () => {})
})
test('it arrives', async () => {})
test.for([
  ['a word', 'now'],
  ['f(1)(2)', 'x'],
] as const)('for a value that is no time: %s', async () => {})
describe('apart', () => {
  it.skipIf(process.platform !== 'linux')(
    'on Linux',
    () => {},
  )
  it.skip('never', () => {})
  it.each([1])('$given', () => {})
  it.each<{ what: string }>([{ what: 'red' }])('painted $what', () => {})
})
describe.skip('off', () => {
  it('is not run', () => {})
})
it.pump()
`

test('the names of tests are read with what is around them, without those that are switched off', () => {
  expect(testNamesIn(FILE)).toEqual([
    ['with log %s', 'it arrives'],
    ['with log %s', "it doesn't arrive"],
    ['it arrives'],
    ['for a value that is no time: %s'],
    ['apart', 'on Linux'],
    ['apart', '$given'],
    ['apart', 'painted $what'],
  ])
})

describe('a name', () => {
  const VALUES = "['a', 'b', 'now']"

  test.for([
    ['it arrives', ['it arrives']],
    ['it arrives', ['with log %s', 'it arrives']],
    ['with log > it arrives', ['with log %s', 'it arrives']],
    ['with log %s > it arrives', ['with log %s', 'it arrives']],
    ['with log a > it arrives', ['with log %s', 'it arrives']],
    ['no time', ['no time: %s']],
    ['no time: now', ['no time: %s']],
    ['no more', ['no more (%s)']],
    ['with log a > b', ['with log %s', '$given']],
    ['$given', ['apart', '$given']],
    ['b is done', ['$given is done']],
  ] as const)('%s is that of %j', ([name, titles]) => {
    expect(isNameOf(name, titles, VALUES)).toBe(true)
  })

  test.for([
    ['it', ['it arrives']],
    ['it arrives late', ['it arrives']],
    ['arrives', ['it arrives']],
    ['with log a', ['with log %s', 'it arrives']],
    ['with log c > it arrives', ['with log %s', 'it arrives']],
    ['now', ['$given']],
    ['no time now', ['no time: %s']],
    ['no time: never', ['no time: %s']],
  ] as const)('%s is not that of %j', ([name, titles]) => {
    expect(isNameOf(name, titles, VALUES)).toBe(false)
  })
})

describe('a row', () => {
  function problems(row: string): string[] {
    const files = new Map([
      ['test/integration/one.test.ts', FILE],
      ['src/domain/one.test.ts', FILE],
    ])
    const page = `| Rule | Test |\n| --- | --- |\n| ${row} |\n`
    return rulesIn(page).flatMap((one) => problemsOf(one, (path) => files.get(path)))
  }

  test.for([
    'It arrives (§6.2) | `one`: with log > it arrives<br>beside `src/domain/one`: on Linux',
    'It arrives (design) | no test yet',
    'It arrives (§6.2, §8) | no test yet of the other half<br>`one`: on Linux',
  ])('is good: %s', (row) => {
    expect(problems(row)).toEqual([])
  })

  test.for([
    ['It arrives (§1) | `two`: it arrives', 'line 3: there is no test/integration/two.test.ts'],
    ['It arrives (§1) | `one`: it goes', 'line 3: test/integration/one.test.ts has no test "it goes"'],
    ['It arrives (§1) | `one`: is not run', 'line 3: test/integration/one.test.ts has no test "is not run"'],
    [
      'It arrives (§1) | `one`: it arrives',
      'line 3: test/integration/one.test.ts has 2 tests "it arrives": name the describe around it, too',
    ],
    ['It arrives (§1) | one: on Linux', 'line 3: "one: on Linux" is not `file`: name of a test'],
    [
      'It arrives (§1) | beside `src/domain/one`: on Linux',
      'line 3: no test on an API server is named, nor does it say "no test yet"',
    ],
    [
      'It arrives (§1) | `src/domain/one`: on Linux',
      'line 3: src/domain/one.test.ts has to stand behind "beside"',
    ],
    ['It arrives | `one`: on Linux', 'line 3: the rule does not end with its source'],
  ] as const)('is not: %s', ([row, want]) => {
    expect(problems(row)).toContain(want)
  })
})
