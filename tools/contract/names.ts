/** Lists annotations, labels, finalizers and tags: every name of Davit's group in the source. */
import { API_VERSION, GROUP } from '../../src/apis/meta.ts'
import {
  cookedOf,
  nameOf,
  nodesAt,
  nodesIn,
  type SourceFile,
  type SyntaxNode,
  textOf,
} from './source-files.ts'

/** Constants that the names are made of. */
const CONSTANTS: Readonly<Record<string, string>> = { GROUP, API_VERSION }
const NAME = new RegExp(`${GROUP.replaceAll('.', '\\.')}/[a-z0-9]([a-zA-Z0-9._-]*[a-zA-Z0-9])?`, 'g')

export function groupNames(sources: readonly SourceFile[]): string[] {
  const texts = sources.flatMap(({ program }) =>
    [...nodesIn(program)].flatMap((node) => textWith(node) ?? []),
  )
  return [...new Set(texts.flatMap((text) => text.match(NAME) ?? []))]
}

/** Expands constants in a template; a computed part becomes a space, which no name contains. */
function textWith(node: SyntaxNode): string | undefined {
  if (node.type !== 'TemplateLiteral') return textOf(node)
  const values = nodesAt(node, 'expressions').map((expression) => CONSTANTS[nameOf(expression) ?? ''] ?? ' ')
  return cookedOf(node).reduce((text, part, index) => text + (values[index - 1] ?? '') + part)
}
