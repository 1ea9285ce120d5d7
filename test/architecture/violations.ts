import { isBuiltin } from 'node:module'
import { dirname, join } from 'node:path/posix'
import { findCycles } from './cycles.ts'
import {
  LONGEST_FILE,
  NOBODY_IMPORTS,
  PROGRAM,
  PURE_BUILTINS,
  PURE_FILE,
  TEST_FILE,
  TEST_ZONE,
  ZONES,
  type Zone,
} from './rules.ts'
import { readSource, type SourceFacts, type SourceImport } from './source-imports.ts'

/** Sources by path from the root of the repository, with `/`. */
export type Sources = ReadonlyMap<string, string>

/** Every breach of the rules, one readable line each: `<file>:<line>: <what is wrong and which rule says so>`. */
export function violationsOf(sources: Sources): string[] {
  const facts = new Map([...sources].map(([path, text]) => [path, readSource(text)]))
  return [
    ...[...facts].flatMap(([path, found]) => violationsOfFile(path, found)),
    ...cycleViolations(facts),
    ...purityViolations(facts),
    ...programViolations(facts),
  ]
}

function violationsOfFile(path: string, facts: SourceFacts): string[] {
  const zone = TEST_FILE.test(path) ? TEST_ZONE : ZONES.find((one) => path.startsWith(one.path))
  if (zone === undefined) return [`${path}:1: is in no folder that the rules know`]
  const say = (line: number, what: string) => `${path}:${line}: ${what}`
  const imports = facts.imports.flatMap((one) => {
    const complaint = complaintAbout(path, zone, one)
    return complaint === undefined ? [] : [say(one.line, complaint)]
  })
  const reads = zone.readsEnvironment ? [] : facts.environmentReads
  return [
    ...imports,
    ...reads.map((line) => say(line, 'reads process.env, which only src/cmd/config.ts may')),
    ...(facts.lineCount > LONGEST_FILE
      ? [say(LONGEST_FILE + 1, `has ${facts.lineCount} lines, the longest may have ${LONGEST_FILE}`)]
      : []),
  ]
}

function complaintAbout(path: string, zone: Zone, one: SourceImport): string | undefined {
  const { specifier } = one
  if (specifier === undefined) {
    return zone.libraries.includes('*') ? undefined : 'imports a computed path, which nobody can check'
  }
  if (specifier.startsWith('.')) return complaintAboutFile(zone, join(dirname(path), specifier), one.typeOnly)
  if (isBuiltin(specifier)) {
    return specifier.startsWith('node:')
      ? undefined
      : `imports ${specifier}: modules of Node are written node:${specifier}`
  }
  const name = specifier.split('/', specifier.startsWith('@') ? 2 : 1).join('/')
  const isAllowed = zone.libraries.some(
    (library) => library === '*' || library === name || (library.endsWith('/') && name.startsWith(library)),
  )
  return isAllowed
    ? undefined
    : `imports ${specifier}: ${zone.path} may use ${listed(zone.libraries)} of libraries`
}

function complaintAboutFile(zone: Zone, target: string, typeOnly: boolean): string | undefined {
  if (target === NOBODY_IMPORTS) return `imports ${target}, which nobody may`
  if (target.startsWith(zone.path)) return undefined
  if (!zone.imports.some((allowed) => target.startsWith(allowed))) {
    return `imports ${target}: ${zone.path} may import ${listed(zone.imports)}`
  }
  const onlyTypes = zone.typesOf?.find((allowed) => target.startsWith(allowed))
  return onlyTypes === undefined || typeOnly
    ? undefined
    : `imports values of ${target}: ${zone.path} may import types of ${onlyTypes} only`
}

function listed(names: readonly string[]): string {
  return names.length === 0 ? 'nothing' : names.join(', ')
}

/** In the product types count: a file that needs another's types and gives it its own is half of one idea. */
function cycleViolations(facts: ReadonlyMap<string, SourceFacts>): string[] {
  const graph = new Map([...facts].map(([path, { imports }]) => [path, localImports(path, imports)]))
  return findCycles(graph).map((cycle) => `${cycle[0]}:1: is in a cycle: ${cycle.join(' -> ')}`)
}

function localImports(path: string, imports: readonly SourceImport[]): string[] {
  const typesCount = path.startsWith('src/') && !TEST_FILE.test(path)
  return imports.flatMap(({ specifier, typeOnly }) =>
    specifier?.startsWith('.') && (typesCount || !typeOnly) ? [join(dirname(path), specifier)] : [],
  )
}

/** A file of decisions is as pure as what it imports: each breach is named once, with a decision that it spoils. */
function purityViolations(facts: ReadonlyMap<string, SourceFacts>): string[] {
  const spoiled = new Map<string, string>()
  for (const decision of facts.keys()) {
    if (!PURE_FILE.test(decision) || TEST_FILE.test(decision)) continue
    for (const path of reachableFrom(decision, facts))
      for (const breach of impurities(path, facts.get(path)))
        if (!spoiled.has(breach)) spoiled.set(breach, decision)
  }
  return [...spoiled].map(([breach, decision]) => `${breach}, and ${decision} decides without I/O`)
}

/** The test runner's hooks throw where it does not run. */
function programViolations(facts: ReadonlyMap<string, SourceFacts>): string[] {
  return [...facts.keys()]
    .filter((path) => PROGRAM.test(path))
    .flatMap((program) =>
      [...reachableFrom(program, facts)].flatMap((path) => {
        const found = facts.get(path)?.imports.find((one) => one.specifier === 'vitest' && !one.typeOnly)
        return found ? [`${path}:${found.line}: imports vitest, and ${program} runs without it`] : []
      }),
    )
}

function reachableFrom(path: string, facts: ReadonlyMap<string, SourceFacts>): Set<string> {
  const reached = new Set([path])
  for (const each of reached)
    for (const { specifier, typeOnly } of facts.get(each)?.imports ?? [])
      if (specifier?.startsWith('.') && !typeOnly) reached.add(join(dirname(each), specifier))
  return reached
}

function impurities(path: string, facts: SourceFacts | undefined): string[] {
  if (!facts) return []
  const builtins = facts.imports.filter(
    ({ specifier, typeOnly }) =>
      specifier !== undefined && isBuiltin(specifier) && !typeOnly && !PURE_BUILTINS.includes(specifier),
  )
  return [
    ...builtins.map(({ specifier, line }) => `${path}:${line}: imports ${specifier}`),
    ...facts.ambient.map(({ what, line }) => `${path}:${line}: uses ${what}`),
  ]
}
