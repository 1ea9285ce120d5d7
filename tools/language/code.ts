import { logCallsIn } from '../contract/log-calls.ts'
import {
  cookedOf,
  nameOf,
  nodeAt,
  nodesIn,
  type SourceFile,
  type SyntaxNode,
  textOf,
} from '../contract/source-files.ts'
import type { Piece } from './markdown.ts'

/** Texts in code: strings of several words, and what log calls and problems say. */

export type LogCall = Piece & { event: string | undefined; message: string | undefined }

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

/** One for each text that the message of a call can be, and one for a call whose message is computed. */
export function logCallsOf({ program }: SourceFile, lineAt: (offset: number) => number): LogCall[] {
  return logCallsIn(program).flatMap(({ node, event, messages }) => {
    const line = lineAt(Number(node.start))
    const all = messages.length === 0 ? [undefined] : messages
    return all.map((message) => ({ line, text: '', event, message }))
  })
}

function wholeTextOf(node: SyntaxNode): string | undefined {
  return node.type === 'TemplateLiteral' ? cookedOf(node).join(VALUE) : textOf(node)
}

function isProse(text: string): boolean {
  const letters = text.replace(/[^a-z ]/gi, '').length
  return /[a-z]{2,} [a-z]{2,}/i.test(text) && letters > 0.8 * text.length
}
