/** The code uses the words of docs/contributing/glossary.md: its names contain none of the retired ones. */
import { globSync, readFileSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { parseAst } from 'vitest/node'

const ROOT = fileURLToPath(new URL('..', import.meta.url))
const GLOSSARY = readFileSync(`${ROOT}docs/contributing/glossary.md`, 'utf8')
/** Names that users see. */
const WIRE_NAMES = ['handover', 'DAVIT_MAX_SHOWN_DELIVERIES', 'lanes', 'waitingLanes']
/** Options of harnesses, and keys of the results that they keep. */
const RESULT_NAMES = ['neighbours']
/** Folders whose names follow the glossary as well. */
const HARNESSES = ['playground', 'test-support', 'tools', 'test/support', 'test/chaos', 'test/hostile']

type Node = { type: string; name?: unknown }

function retiredWords(): string[] {
  const rows = GLOSSARY.split('\n').filter((line) => line.startsWith('| ') && !line.startsWith('| ---'))
  return rows
    .map((row) => row.split('|').at(-2)?.trim() ?? '')
    .filter((cell) => cell !== '' && cell !== 'Retired')
    .flatMap((cell) => cell.split(', '))
}

/** `EndpointQueue`, `MAX_QUEUES` and `endpoint-queue` are two words each; a control plane is one. */
function wordsIn(name: string): string[] {
  return name
    .replaceAll(/control-?plane/gi, 'Control')
    .replaceAll(/([a-z0-9])([A-Z])/g, '$1 $2')
    .toLowerCase()
    .split(/[^a-z0-9]+/)
}

function* namesIn(value: unknown): Generator<string> {
  if (Array.isArray(value)) for (const one of value) yield* namesIn(one)
  else if (typeof value === 'object' && value !== null) {
    const { type, name } = value as Node
    if (/Identifier$/.test(type) && typeof name === 'string') yield name
    for (const one of Object.values(value)) yield* namesIn(one)
  }
}

function retiredIn(
  path: string,
  text: string,
  retired: readonly string[],
  allowed: readonly string[] = [],
): string[] {
  const isRetired = (name: string) =>
    !WIRE_NAMES.includes(name) &&
    !allowed.includes(name) &&
    wordsIn(name).some((word) => retired.includes(word))
  const names = [...new Set(namesIn(parseAst(text, { lang: 'ts' })))].filter(isRetired)
  const inPath = isRetired(path) ? ['its own name'] : []
  return [...inPath, ...names].map((name) => `${path}: ${name}`)
}

const RETIRED = retiredWords()

test('no name of the product has a retired word', () => {
  expect(RETIRED.length).toBeGreaterThan(10)
  const paths = globSync('src/**/*.ts', { cwd: ROOT })
  const found = paths.flatMap((path) => {
    const isTest = path.endsWith('.test.ts')
    return retiredIn(path, isTest ? '' : readFileSync(ROOT + path, 'utf8'), RETIRED)
  })
  expect(found).toEqual([])
})

test('no name of a harness has a retired word', () => {
  const paths = HARNESSES.flatMap((folder) => globSync(`${folder}/**/*.{ts,mjs}`, { cwd: ROOT }))
  expect(paths.length).toBeGreaterThan(300)
  const found = paths.flatMap((path) => {
    if (path.includes('node_modules')) return []
    // Reports cite tests by their files.
    const name = path.endsWith('.test.ts') ? '' : basename(path)
    const names = retiredIn(name, readFileSync(ROOT + path, 'utf8'), RETIRED, RESULT_NAMES)
    return names.map((one) => `${path}: ${one}`)
  })
  expect(found).toEqual([])
})

test.for([
  { given: 'const tenureOf = 1', want: ['src/a.ts: tenureOf'] },
  { given: 'class Lane { #told = 1 }', want: ['src/a.ts: Lane', 'src/a.ts: told'] },
  { given: 'const MAX_LANES = 1', want: ['src/a.ts: MAX_LANES'] },
  { given: 'const planet = { handover: 1, lanes: 2 }', want: [] },
  { given: 'const controlPlane = startControlPlane()', want: [] },
] as const)('retired words are found in names: $given', ({ given, want }) => {
  expect(retiredIn('src/a.ts', given, RETIRED)).toEqual(want)
})

test('retired words are found in the names of files', () => {
  expect(retiredIn('src/server/facade-leases.test.ts', '', RETIRED)).toEqual([
    'src/server/facade-leases.test.ts: its own name',
  ])
})
