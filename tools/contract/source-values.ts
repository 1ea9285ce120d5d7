/** Finds the possible values of an expression, as far as its file shows them. */
import { nameOf, nodeAt, nodesAt, type SyntaxNode, textOf } from './source-files.ts'

/** Texts by the name of their constant in the file. */
export type Constants = ReadonlyMap<string, string>

export function constantsOf(nodes: readonly SyntaxNode[]): Constants {
  const constants = new Map<string, string>()
  for (const node of nodes) {
    if (node.type !== 'VariableDeclarator') continue
    const [name, init] = [nameOf(nodeAt(node, 'id')), nodeAt(node, 'init')]
    const text = init && textOf(init)
    if (name !== undefined && text !== undefined) constants.set(name, text)
  }
  return constants
}

/** Returns texts, including those in lists and object values, but not those that are only compared with. */
export function valuesOf(node: SyntaxNode | undefined, constants: Constants): string[] {
  const inside = (field: string) => valuesOf(nodeAt(node ?? NOTHING, field), constants)
  const all = (field: string) => nodesAt(node ?? NOTHING, field).flatMap((item) => valuesOf(item, constants))
  switch (node?.type) {
    case 'ConditionalExpression':
      return [...inside('consequent'), ...inside('alternate')]
    case 'LogicalExpression':
      return [...inside('left'), ...inside('right')]
    case 'TSAsExpression':
    case 'TSSatisfiesExpression':
      return inside('expression')
    case 'ArrayExpression':
      return all('elements')
    case 'ObjectExpression':
      return all('properties')
    case 'Property':
      return inside('value')
    case 'CallExpression':
    case 'NewExpression':
      return all('arguments')
    case 'Identifier':
      return listOf(constants.get(nameOf(node) ?? ''))
    default:
      return listOf(node && textOf(node))
  }
}

const NOTHING: SyntaxNode = { type: 'EmptyStatement' }

function listOf(text: string | undefined): string[] {
  return text === undefined ? [] : [text]
}
