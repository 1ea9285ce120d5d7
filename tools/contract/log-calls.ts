/** Finds the calls of a logger: their levels, the code of the event, and the texts that their message can be. */
import { cookedOf, nameOf, nodeAt, nodesAt, nodesIn, type SyntaxNode, textOf } from './source-files.ts'
import { constantsOf, valuesOf } from './source-values.ts'

export type LogCall = {
  node: SyntaxNode
  levels: readonly string[]
  /** Undefined if it is not a text. */
  event: string | undefined
  /** With `…` for computed parts; empty if all of it is computed. */
  messages: readonly string[]
}

const LEVELS: ReadonlySet<string> = new Set(['info', 'warn', 'error'])
const LOGGER = /log(ger)?$/i

/** Returns the first value of a variable of the file, and every other node unchanged. */
type Resolve = (node: SyntaxNode | undefined) => SyntaxNode | undefined

/** @throws Error for a call with a code whose level the file does not show */
export function logCallsIn(program: SyntaxNode): LogCall[] {
  const nodes = [...nodesIn(program)]
  const resolve: Resolve = (node) => {
    if (node?.type !== 'Identifier') return node
    const isIt = (each: SyntaxNode) =>
      each.type === 'VariableDeclarator' && nameOf(nodeAt(each, 'id')) === nameOf(node)
    return nodeAt(nodes.find(isIt) ?? node, 'init')
  }
  return nodes.flatMap((node) => {
    const method = methodOf(node)
    if (!method) return []
    const [code, message] = nodesAt(node, 'arguments')
    const event = code && textOf(code)
    const levels = levelsOf(method, resolve)
    if (levels.length === 0 && method.computed && event !== undefined)
      throw new Error(`the level of ${event} is not known`)
    return levels.length === 0
      ? []
      : [{ node, levels, event, messages: messagesOf(resolve(message), resolve) }]
  })
}

/** The `log.warn` of a call; undefined for other nodes. */
function methodOf(node: SyntaxNode): SyntaxNode | undefined {
  const callee = node.type === 'CallExpression' ? nodeAt(node, 'callee') : undefined
  if (callee?.type !== 'MemberExpression') return undefined
  return LOGGER.test(nameOf(nodeAt(callee, 'object')) ?? '') ? callee : undefined
}

/** Empty if the method does not write a line, or is computed from something that the file does not show. */
function levelsOf(method: SyntaxNode, resolve: Resolve): string[] {
  const property = nodeAt(method, 'property')
  const names = method.computed ? valuesOf(resolve(property), constantsOf([])) : [nameOf(property) ?? '']
  return names.filter((name) => LEVELS.has(name))
}

function messagesOf(node: SyntaxNode | undefined, resolve: Resolve): string[] {
  if (node?.type === 'ConditionalExpression')
    return ['consequent', 'alternate'].flatMap((field) => messagesOf(resolve(nodeAt(node, field)), resolve))
  const text =
    node?.type === 'TemplateLiteral' ? cookedOf(node).join('…').replaceAll(/…+/g, '…') : node && textOf(node)
  return text === undefined ? [] : [text]
}
