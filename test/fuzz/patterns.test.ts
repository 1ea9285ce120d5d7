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
/** Nearly all take milliseconds, and the longest seconds, on a machine that has nothing else to do. */
const TIMEOUT_MS = 120_000
/** With more repeats than these it is attacked by texts of chance, which are the same each time. */
const ANALYSIS = { timeout: TIMEOUT_MS, maxRepeatCount: 64, randomSeed: 1 }
const SQUARE = '2nd degree polynomial'

/** Patterns that take the square of their text, by file, and why that is short. */
const QUADRATIC: Readonly<Record<string, { patterns: readonly RegExp[]; why: string }>> = {
  'cmd/config.ts': {
    patterns: [
      /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT(_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$/,
      /\/+$/,
    ],
    why: 'names of environment variables, and a setting, from the operator who starts the program',
  },
  'boxes/controller/bake-job.ts': { patterns: [/-+$/], why: 'a part of a name of 63 characters' },
  'credentials/cloud.ts': { patterns: [/\.+$/], why: 'a message that was made fit to show' },
  'credentials/controller/conditions.ts': {
    patterns: [/@.*$/, /:[^/]*$/],
    why: 'the name of an image, at most 716 characters',
  },
  'boxes/registry/outcome.ts': {
    patterns: [/@.*$|:[^/:]*$/],
    why: 'the name of an image, at most 716 characters',
  },
  'boxes/job/redaction.ts': { patterns: [/=+$/], why: 'base64, whose padding is two characters at most' },
  'credentials/aws/errors.ts': {
    patterns: [
      / ?The Canonical String for this request.*$/,
      / ?[([] ?(?:Service:[^)\]]*|request[ -]?id:[^)\]]*)[)\]]/,
      /=+$/,
    ],
    why: 'an answer of AWS, cut at ten times what is shown of it; base64, whose padding is two characters at most',
  },
  'kube/auth.ts': { patterns: [/\/+$/], why: 'the address in a kubeconfig' },
  'kube/recorder.ts': { patterns: [/[^a-z0-9]+$/], why: 'a name of 253 characters' },
  'boxes/registry/probe.ts': { patterns: [/;.*$/], why: 'a header, and all of them are 32 KB' },
  'lib/redact.ts': {
    patterns: [/\beyJ[\w-]{8,}\.[\w-]+\.[\w-]*/],
    why: 'a line of the log, at most 4,096 characters',
  },
}

/** Files that make a pattern where they are called, with what it looks like then. */
const MADE_WHEN_CALLED: Readonly<Record<string, RegExp>> = {
  'lib/redact.ts': /(?<!\w)a\+secret\/of=some\.length(?!\w)/gu,
}

type Pattern = { source: string; flags: string; path: string; where: string }

const files = globSync('**/*.ts', { cwd: SOURCES }).filter((path) => !path.endsWith('.test.ts'))
const read = files.map(patternsIn)
const literals = read.flatMap(({ literals }) => literals)
const making = read.filter(({ atOnce }) => atOnce > 0)

/** Patterns as they are written, and how many are made of something else, when the module is read and when it is called. */
function patternsIn(path: string) {
  const text = readFileSync(SOURCES + path, 'utf8')
  const found: Pattern[] = []
  let [atOnce, whenCalled, depth] = [0, 0, 0]
  const enter = () => {
    depth += 1
  }
  const leave = () => {
    depth -= 1
  }
  const make = ({ callee }: { callee: { type: string; name?: unknown } }) => {
    if (callee.type !== 'Identifier' || callee.name !== 'RegExp') return
    if (depth === 0) atOnce += 1
    else whenCalled += 1
  }
  const visitor = new Visitor({
    FunctionDeclaration: enter,
    'FunctionDeclaration:exit': leave,
    FunctionExpression: enter,
    'FunctionExpression:exit': leave,
    ArrowFunctionExpression: enter,
    'ArrowFunctionExpression:exit': leave,
    NewExpression: make,
    CallExpression: make,
    Literal: (literal) => {
      if (!('regex' in literal)) return
      const { pattern: source, flags } = literal.regex
      const where = `${path}:${text.slice(0, literal.start).split('\n').length}`
      found.push({ source, flags, path, where })
    },
  })
  const { program, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path} cannot be read: ${errors[0]?.message}`)
  visitor.visit(program)
  return { path, literals: found, atOnce, whenCalled }
}

/** Made when the module is read, by it and by what it imports. */
async function madeBy(path: string): Promise<Pattern[]> {
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
    // A fresh import, whether or not it was imported before.
    await import(/* @vite-ignore */ `../../src/${path}?patterns`)
  } finally {
    globalThis.RegExp = before
  }
  return found
}

const quadratic = new Set<string>()

describe('every pattern takes time in proportion to the text at most, or its square where that is short', () => {
  it.each(literals)(
    '$where: $source',
    async (pattern) => {
      expect(await problemOf(pattern)).toBeUndefined()
    },
    TIMEOUT_MS,
  )

  it.each(making)(
    'those that $path makes of others',
    async ({ path, atOnce }) => {
      const found = await madeBy(path)
      expect(found.length).toBeGreaterThanOrEqual(atOnce)
      for (const pattern of found) expect(await problemOf(pattern), pattern.source).toBeUndefined()
    },
    TIMEOUT_MS,
  )

  it('those that are made when something is called', async () => {
    const makers = read.filter(({ whenCalled }) => whenCalled > 0)
    expect(makers.map(({ path, whenCalled }) => [path, whenCalled])).toEqual(
      Object.keys(MADE_WHEN_CALLED).map((path) => [path, 1]),
    )
    for (const { source, flags } of Object.values(MADE_WHEN_CALLED))
      expect(await verdictOf({ source, flags }), source).toBe('safe')
  })

  it('each of the latter is there, and takes the square of its text', () => {
    const named = Object.entries(QUADRATIC).flatMap(([path, { patterns }]) =>
      patterns.map(({ source }) => keyOf({ path, source })),
    )
    expect([...quadratic].sort()).toEqual(named.sort())
  })
})

it('the analysis tells a pattern that does not', async () => {
  expect(await verdictOf({ source: '^(a|a)*$', flags: '' })).toBe('exponential')
  expect(await verdictOf({ source: '\\s+$', flags: '' })).toBe(SQUARE)
})

async function problemOf(pattern: Pattern): Promise<string | undefined> {
  const verdict = await verdictOf(pattern)
  const isKnown = QUADRATIC[pattern.path]?.patterns.some(({ source }) => source === pattern.source)
  if (verdict === SQUARE && isKnown) quadratic.add(keyOf(pattern))
  else if (verdict !== 'safe') return verdict
  return undefined
}

function keyOf({ path, source }: { path: string; source: string }): string {
  return `${path} ${source}`
}

async function verdictOf({ source, flags }: Pick<Pattern, 'source' | 'flags'>): Promise<string> {
  const found = await check(source, flags, ANALYSIS)
  return found.status === 'vulnerable' ? found.complexity.summary : found.status
}
