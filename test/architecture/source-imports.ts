import { parseAst } from 'vitest/node'

export type SourceImport = {
  /** As written; undefined where it is computed. */
  specifier: string | undefined
  /** From 1. */
  line: number
  typeOnly: boolean
}

/** What the rules look at in one file. */
export type SourceFacts = {
  imports: SourceImport[]
  environmentReads: number[]
  /** Reads of a clock, chance and timers: what a decision takes as an argument. */
  ambient: { what: string; line: number }[]
  lineCount: number
}

type Node = { type: string; start: number; [field: string]: unknown }

const TYPE_IMPORTS = ['TSImportType']
const VALUE_IMPORTS = ['ImportExpression']
const DECLARATIONS = ['ImportDeclaration', 'ExportAllDeclaration', 'ExportNamedDeclaration']

/** Parses TypeScript: imports of every form, re-exports included, and reads of process.env in every form. */
export function readSource(text: string): SourceFacts {
  const facts: SourceFacts = {
    imports: [],
    environmentReads: [],
    ambient: [],
    lineCount: text.trimEnd().split('\n').length,
  }
  const lineOf = (node: Node) => text.slice(0, node.start).split('\n').length
  for (const node of nodesBelow(parseAst(text, { lang: 'ts' }))) {
    const found = importOf(node)
    if (found !== undefined) facts.imports.push({ ...found, line: lineOf(node) })
    if (readsEnvironment(node)) facts.environmentReads.push(lineOf(node))
    const what = ambientOf(node)
    if (what !== undefined) facts.ambient.push({ what, line: lineOf(node) })
  }
  return facts
}

function importOf(node: Node): Omit<SourceImport, 'line'> | undefined {
  const isDeclaration = DECLARATIONS.includes(node.type)
  if (isDeclaration ? !node.source : ![...TYPE_IMPORTS, ...VALUE_IMPORTS].includes(node.type))
    return undefined
  const { value } = node.source as { value?: unknown }
  return {
    specifier: typeof value === 'string' ? value : undefined,
    typeOnly: TYPE_IMPORTS.includes(node.type) || (isDeclaration && isTypeOnly(node)),
  }
}

/** `import type`, or each of its names marked so. An import for its effects has no names. */
function isTypeOnly(node: Node): boolean {
  if (node.importKind === 'type' || node.exportKind === 'type') return true
  const names = (node.specifiers ?? []) as { importKind?: string; exportKind?: string }[]
  return names.length > 0 && names.every((name) => (name.importKind ?? name.exportKind) === 'type')
}

/** `process.env`, `process['env']`, `const { env } = process`, `import { env } from 'node:process'`. */
function readsEnvironment(node: Node): boolean {
  if (node.type === 'MemberExpression') return isProcess(node.object) && nameOf(node.property) === 'env'
  if (node.type === 'VariableDeclarator') return isProcess(node.init) && hasProperty(node.id, 'env')
  if (node.type !== 'ImportDeclaration' || !/^(node:)?process$/.test(String(nameOf(node.source))))
    return false
  return (node.specifiers as Node[]).some((specifier) => nameOf(specifier.imported) === 'env')
}

const AMBIENT_MEMBERS = ['Date.now', 'Math.random', 'performance.now', 'crypto.randomUUID']
const AMBIENT_CALLS = ['setTimeout', 'setInterval', 'setImmediate', 'fetch', 'randomBytes', 'randomUUID']

/** `Date.now`, `new Date()`, `Math.random`, timers: undefined for anything else. */
function ambientOf(node: Node): string | undefined {
  if (node.type === 'MemberExpression') {
    const name = `${String(nameOf(node.object))}.${String(nameOf(node.property))}`
    return AMBIENT_MEMBERS.includes(name) ? name : undefined
  }
  const callee = String(nameOf(node.callee))
  if (node.type === 'NewExpression')
    return callee === 'Date' && (node.arguments as Node[]).length === 0 ? 'new Date()' : undefined
  return node.type === 'CallExpression' && AMBIENT_CALLS.includes(callee) ? `${callee}()` : undefined
}

function isProcess(value: unknown): boolean {
  if (!isNode(value)) return false
  const isGlobal = value.type === 'MemberExpression' && nameOf(value.object) === 'globalThis'
  return nameOf(isGlobal ? value.property : value) === 'process'
}

function hasProperty(pattern: unknown, name: string): boolean {
  const { properties } = pattern as { properties?: Node[] }
  return properties?.some(({ key }) => nameOf(key) === name) ?? false
}

function nameOf(value: unknown): unknown {
  if (!isNode(value)) return undefined
  return value.type === 'Literal' ? value.value : value.name
}

function* nodesBelow(value: unknown): Generator<Node> {
  if (Array.isArray(value)) {
    for (const one of value) yield* nodesBelow(one)
  } else if (isNode(value)) {
    yield value
    for (const one of Object.values(value)) yield* nodesBelow(one)
  }
}

function isNode(value: unknown): value is Node {
  return typeof value === 'object' && value !== null && typeof (value as Node).type === 'string'
}
