/** Parses the source, for facts that no constant lists. */
import { globSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'oxc-parser'
import { ROOT } from './root.ts'

/** A node of the syntax tree (ESTree with TypeScript). */
export type SyntaxNode = { type: string; [field: string]: unknown }

export type SourceFile = { path: string; program: SyntaxNode }

/** All files of `src`, or of other patterns, except tests. @throws Error for a file that cannot be parsed */
export function sourceFiles(patterns: readonly string[] = ['src/**/*.ts']): SourceFile[] {
  const paths = globSync([...patterns], { cwd: ROOT }).filter((path) => !path.endsWith('.test.ts'))
  return paths.sort().map((path) => {
    const { program, errors } = parseSync(path, readFileSync(join(ROOT, path), 'utf8'))
    if (errors.length > 0) throw new Error(`${path}: ${errors[0]?.message}`)
    return { path, program: program as unknown as SyntaxNode }
  })
}

/** Yields the node and all of its descendants, outer ones first. */
export function* nodesIn(node: SyntaxNode): Generator<SyntaxNode> {
  yield node
  for (const value of Object.values(node)) {
    const children: readonly unknown[] = Array.isArray(value) ? value : [value]
    for (const child of children) if (isNode(child)) yield* nodesIn(child)
  }
}

export function isNode(value: unknown): value is SyntaxNode {
  return typeof value === 'object' && value !== null && 'type' in value && typeof value.type === 'string'
}

export function nodeAt(node: SyntaxNode, field: string): SyntaxNode | undefined {
  const value = node[field]
  return isNode(value) ? value : undefined
}

export function nodesAt(node: SyntaxNode, field: string): SyntaxNode[] {
  const value = node[field]
  return Array.isArray(value) ? value.filter(isNode) : []
}

/** The name of an identifier, private or not, a member or an object key; undefined for other nodes. */
export function nameOf(node: SyntaxNode | undefined): string | undefined {
  if (node?.type === 'MemberExpression') return nameOf(nodeAt(node, 'property'))
  if (node?.type === 'Literal' && typeof node.value === 'string') return node.value
  return typeof node?.name === 'string' ? node.name : undefined
}

/** The value of a string without computed parts. */
export function textOf(node: SyntaxNode): string | undefined {
  if (node.type === 'Literal' && typeof node.value === 'string') return node.value
  if (node.type === 'TSLiteralType') {
    const literal = nodeAt(node, 'literal')
    return literal && textOf(literal)
  }
  if (node.type !== 'TemplateLiteral' || nodesAt(node, 'expressions').length > 0) return undefined
  return cookedOf(node)[0]
}

/** The text parts of a template around its expressions. */
export function cookedOf(template: SyntaxNode): string[] {
  return nodesAt(template, 'quasis').map(({ value }) => (value as { cooked: string }).cooked)
}
