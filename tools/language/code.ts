import {
  cookedOf,
  nameOf,
  nodeAt,
  nodesAt,
  nodesIn,
  type SourceFile,
  type SyntaxNode,
  textOf,
} from '../contract/source-files.ts'
import type { Piece } from './markdown.ts'

/** Texts in code: strings of several words, and what log calls and problems say. */

export type LogCall = Piece & { event: string | undefined; message: string | undefined }

const LEVELS = new Set(['info', 'warn', 'error'])
/** Stands for a computed part of a text. */
const VALUE = 'value'

/** Every string that people may read: several words, and hardly any signs. */
export function stringsOf({ program }: SourceFile, lineAt: (offset: number) => number): Piece[] {
  return [...nodesIn(program)].flatMap((node) => {
    const text = wholeTextOf(node)
    if (text === undefined) return []
    const prose = text.replaceAll(/`[^`\n]*`/g, 'Code')
    const line = lineAt(Number(node.start))
    return prose.split('\n').flatMap((row) => (isProse(row) ? [{ line, text: row }] : []))
  })
}

/** Titles of problems: `title` of an entry of `PROBLEMS`. */
export function titlesOf({ program }: SourceFile, lineAt: (offset: number) => number): Piece[] {
  return [...nodesIn(program)].flatMap((node) => {
    if (node.type !== 'Property' || nameOf(nodeAt(node, 'key')) !== 'title') return []
    const value = nodeAt(node, 'value')
    const text = value && textOf(value)
    return text === undefined ? [] : [{ line: lineAt(Number(node.start)), text }]
  })
}

export function logCallsOf({ program }: SourceFile, lineAt: (offset: number) => number): LogCall[] {
  return [...nodesIn(program)].flatMap((node) => {
    if (node.type !== 'CallExpression') return []
    const callee = nodeAt(node, 'callee')
    const object = callee && nameOf(nodeAt(callee, 'object'))
    if (callee?.type !== 'MemberExpression' || !LEVELS.has(nameOf(callee) ?? '')) return []
    if (object === undefined || !/log(ger)?$/i.test(object)) return []
    const [event, message] = nodesAt(node, 'arguments')
    const line = lineAt(Number(node.start))
    return [{ line, text: '', event: event && textOf(event), message: message && wholeTextOf(message) }]
  })
}

function wholeTextOf(node: SyntaxNode): string | undefined {
  return node.type === 'TemplateLiteral' ? cookedOf(node).join(VALUE) : textOf(node)
}

function isProse(text: string): boolean {
  const letters = text.replace(/[^a-z ]/gi, '').length
  return /[a-z]{2,} [a-z]{2,}/i.test(text) && letters > 0.8 * text.length
}
