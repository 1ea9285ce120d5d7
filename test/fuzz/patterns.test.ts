/**
 * What others write is matched by regular expressions: none may take longer than in proportion to the text, whatever that is, but for those
 * that take its square and only ever see short ones. Each is judged by an analysis of its automaton, or by attacks on it where that is
 * too large.
 */
import { globSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseSync, Visitor } from 'oxc-parser'
import { check } from 'recheck'
import { describe, expect, it } from 'vitest'

const SOURCES = fileURLToPath(new URL('../../src/', import.meta.url))
/** Of an attack that looks for a text on which a pattern is slow; the analysis of nearly all takes milliseconds. */
const TIMEOUT_MS = 20_000

const SQUARE = '2nd degree polynomial'

type Pattern = { source: string; flags: string; path: string; where: string }

/** With some pattern that takes the square of its text, and why that is short. */
const QUADRATIC: Readonly<Record<string, string>> = {
  'config.ts': 'names of environment variables, from whoever starts the program',
  'config-check.ts': 'a setting, from whoever starts the program',
  'domain/bake-name.ts': 'a part of a name of 63 characters',
  'domain/cloud-failure.ts': 'a message that was made fit to show',
  'domain/credential-verified.ts': 'the name of an image: 512 characters',
  'domain/registry-failure.ts': 'the name of an image: 512 characters',
  'domain/tool-words.ts': 'base64, whose padding is two characters at most',
  'adapters/aws/error-words.ts': 'an answer of AWS, cut at ten times what is shown of it',
  'adapters/kubernetes/cluster-access.ts': 'the address in a kubeconfig',
  'adapters/kubernetes/event-object.ts': 'a name of 253 characters',
  'adapters/registry/registry-probe.ts': 'a header: 16 KB',
  'adapters/system/redact.ts': 'a line of the log: 4,096 characters',
}

const files = globSync('**/*.ts', { cwd: SOURCES }).filter(
  (path) => !path.endsWith('.test.ts') && !/^(tools|playground)\//.test(path),
)
const made = files.filter((path) => readFileSync(SOURCES + path, 'utf8').includes('new RegExp('))
/** As they are written. */
function literalsIn(path: string): Pattern[] {
  const text = readFileSync(SOURCES + path, 'utf8')
  const found: Pattern[] = []
  const visitor = new Visitor({
    Literal: (literal) => {
      if (!('regex' in literal)) return
      const { pattern: source, flags } = literal.regex
      const where = `${path}:${text.slice(0, literal.start).split('\n').length}`
      found.push({ source, flags, path, where })
    },
  })
  visitor.visit(parseSync(path, text).program)
  return found
}

/** Made of others when their module is read. */
async function madeIn(path: string): Promise<Pattern[]> {
  const found: Pattern[] = []
  const before = globalThis.RegExp
  globalThis.RegExp = new Proxy(before, {
    construct: (target, [source, flags = '']: [string | RegExp, string?]) => {
      const made = new target(source, flags)
      found.push({ source: made.source, flags: made.flags, path, where: path })
      return made
    },
  })
  try {
    // Each with what it imports, whoever has imported that before.
    await import(/* @vite-ignore */ `../../src/${path}?patterns`)
  } finally {
    globalThis.RegExp = before
  }
  return found
}

const literals = files.flatMap(literalsIn)

const quadratic = new Set<string>()

describe('every pattern takes time in proportion to the text at most, or its square where that is short', () => {
  it.each(literals)('$where: $source', async (pattern) => {
    expect(await problemOf(pattern)).toBeUndefined()
  })

  it.each(made)('those that %s makes of others', async (path) => {
    const found = await madeIn(path)
    expect(found.length).toBeGreaterThan(0)
    for (const pattern of found) expect(await problemOf(pattern), pattern.source).toBeUndefined()
  })

  it('each file that may have one of the latter has one', () => {
    expect([...quadratic].sort()).toEqual(Object.keys(QUADRATIC).sort())
  })
})

it('the analysis tells a pattern that does not', async () => {
  expect(await verdictOf({ source: '^(a|a)*$', flags: '' })).toBe('exponential')
  expect(await verdictOf({ source: '\\s+$', flags: '' })).toBe(SQUARE)
})

async function problemOf(pattern: Pattern): Promise<string | undefined> {
  const verdict = await verdictOf(pattern)
  if (verdict.startsWith(SQUARE) && pattern.path in QUADRATIC) quadratic.add(pattern.path)
  else if (verdict !== 'safe') return verdict
  return undefined
}

async function verdictOf({ source, flags }: Pick<Pattern, 'source' | 'flags'>): Promise<string> {
  const found = await check(source, flags, { timeout: TIMEOUT_MS })
  return found.status === 'vulnerable' ? found.complexity.summary : found.status
}
