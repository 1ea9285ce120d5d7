/**
 * Lists the types of conditions, and the reasons of conditions and Events. No constant lists them, so they are read from the
 * source: every text in the position of a reason. Too many are harmless; a missing one could change unnoticed.
 */
import { bakeFailureCode } from '../../src/apis/bake.ts'
import { failureReason } from '../../src/boxes/controller/outcome.ts'
import { nameOf, nodeAt, nodesAt, nodesIn, type SourceFile, type SyntaxNode, textOf } from './source-files.ts'
import { type Constants, constantsOf, valuesOf } from './source-values.ts'

const WORD = /^[A-Z][a-z]+[A-Za-z0-9]*$/
const IS_REASON = /reason/i
const CONDITION_LIST = /_CONDITIONS$/
/** Types of Events, which are not conditions. */
const EVENT_TYPES: ReadonlySet<string> = new Set(['Normal', 'Warning'])
/** Fields that tell a condition from other objects with a type. */
const OF_A_CONDITION: ReadonlySet<string> = new Set(['status', 'reason', 'message'])

/** Functions by name, with the positions of their parameters that are reasons. */
type Takers = ReadonlyMap<string, readonly number[]>
/** Types by name. */
type Aliases = ReadonlyMap<string, SyntaxNode | undefined>

export function reasonLines(sources: readonly SourceFile[]): string[] {
  const files = sources.map(({ program }) => [...nodesIn(program)])
  const takers = takersOfReasons(files.flat())
  const aliases = aliasesIn(files.flat())
  const conditions: string[] = []
  const reasons: string[] = []
  for (const nodes of files) {
    const constants = constantsOf(nodes)
    for (const node of nodes) {
      conditions.push(...conditionsIn(node, constants))
      reasons.push(...reasonsIn(node, constants), ...reasonsGiven(node, takers, constants))
      reasons.push(...reasonsOfType(node, aliases))
    }
  }
  return [
    ...distinctWords(conditions).map((word) => `condition ${word}`),
    ...distinctWords(reasons).map((word) => `reason ${word}`),
    ...bakeFailureCode.options.map((code) => `bake failure ${code}, reason ${failureReason(code)}`),
  ]
}

/** Finds reasons where they are written: a property or a variable of that name, a list, or the result of a function. */
function reasonsIn(node: SyntaxNode, constants: Constants): string[] {
  switch (node.type) {
    case 'Property':
      return isReason(nodeAt(node, 'key')) ? valuesOf(nodeAt(node, 'value'), constants) : []
    case 'VariableDeclarator':
      return isReason(nodeAt(node, 'id')) ? valuesOf(nodeAt(node, 'init'), constants) : []
    case 'AssignmentExpression':
      return isReason(nodeAt(node, 'left')) ? valuesOf(nodeAt(node, 'right'), constants) : []
    case 'FunctionDeclaration':
      return isReason(nodeAt(node, 'id')) ? returnsOf(node, constants) : []
    case 'MethodDefinition':
      return isReason(nodeAt(node, 'key')) ? returnsOf(node, constants) : []
    default:
      return []
  }
}

function returnsOf(node: SyntaxNode, constants: Constants): string[] {
  const returns = [...nodesIn(node)].filter(({ type }) => type === 'ReturnStatement')
  return returns.flatMap((statement) => valuesOf(nodeAt(statement, 'argument'), constants))
}

function takersOfReasons(nodes: readonly SyntaxNode[]): Takers {
  const takers = new Map<string, number[]>()
  for (const node of nodes) {
    const name = nameOf(nodeAt(node, 'id') ?? nodeAt(node, 'key'))
    const made = nodeAt(node, 'init') ?? nodeAt(node, 'value') ?? node
    const places = nodesAt(made, 'params').flatMap((param, index) => (isReason(param) ? [index] : []))
    if (name !== undefined && places.length > 0) takers.set(name, [...(takers.get(name) ?? []), ...places])
  }
  return takers
}

/** Finds reasons that are arguments. */
function reasonsGiven(node: SyntaxNode, takers: Takers, constants: Constants): string[] {
  if (node.type !== 'CallExpression') return []
  const places = takers.get(nameOf(nodeAt(node, 'callee')) ?? '') ?? []
  const given = nodesAt(node, 'arguments')
  return places.flatMap((place) => valuesOf(given[place], constants))
}

function aliasesIn(nodes: readonly SyntaxNode[]): Aliases {
  const declarations = nodes.filter(({ type }) => type === 'TSTypeAliasDeclaration')
  return new Map(
    declarations.map((alias) => [nameOf(nodeAt(alias, 'id')) ?? '', nodeAt(alias, 'typeAnnotation')]),
  )
}

/** Finds reasons in types: of a property or parameter of that name, or a type of that name. */
function reasonsOfType(node: SyntaxNode, aliases: Aliases): string[] {
  const type = nodeAt(node, 'typeAnnotation')
  const named = nodeAt(node, 'key') ?? nodeAt(node, 'id') ?? node
  if (!type || !isReason(named)) return []
  return [...nodesIn(type)].flatMap((part) => {
    const name = part.type === 'TSTypeReference' ? nameOf(nodeAt(part, 'typeName')) : undefined
    const alias = aliases.get(name ?? '')
    return [part, ...(alias ? nodesIn(alias) : [])].flatMap((inner) => textOf(inner) ?? [])
  })
}

/** Finds `{ type: 'Ready', status: ... }`, also with a constant as the type or a spread for the rest; or a list of types. */
function conditionsIn(node: SyntaxNode, constants: Constants): string[] {
  if (node.type === 'VariableDeclarator') {
    const name = nameOf(nodeAt(node, 'id')) ?? ''
    return CONDITION_LIST.test(name) ? valuesOf(nodeAt(node, 'init'), constants) : []
  }
  if (node.type !== 'ObjectExpression') return []
  const properties = nodesAt(node, 'properties')
  const isCondition = properties.some(
    (property) =>
      property.type === 'SpreadElement' || OF_A_CONDITION.has(nameOf(nodeAt(property, 'key')) ?? ''),
  )
  const type = properties.find((property) => nameOf(nodeAt(property, 'key')) === 'type')
  if (!isCondition || !type) return []
  return valuesOf(type, constants).filter((word) => !EVENT_TYPES.has(word))
}

function distinctWords(texts: readonly string[]): string[] {
  return [...new Set(texts)].filter((text) => WORD.test(text))
}

function isReason(node: SyntaxNode | undefined): boolean {
  return IS_REASON.test(nameOf(node) ?? '')
}
