import { fromMarkdown } from 'mdast-util-from-markdown'

/** A piece of text that is read as a whole: a paragraph, a heading, a cell of a table. */
export type Piece = { line: number; text: string }

type Node = {
  type: string
  value?: string
  alt?: string | null
  children?: Node[]
  position?: { start: { line: number } }
}

/** Stands for code, which has no grammar. */
const CODE = 'Code'

/** Within a cell of a table. */
const LINE_BREAK = '\u2028'

/** The prose of a page, without code, addresses and HTML. */
export function proseOf(markdown: string): Piece[] {
  return piecesIn(fromMarkdown(markdown) as Node)
}

function piecesIn(node: Node): Piece[] {
  if (node.type !== 'paragraph' && node.type !== 'heading') return (node.children ?? []).flatMap(piecesIn)
  const line = node.position?.start.line ?? 0
  const text = textOf(node)
  return text.trimStart().startsWith('|') ? cellsOf(text, line) : [{ line, text: text.replaceAll('\n', ' ') }]
}

function textOf(node: Node): string {
  if (node.type === 'inlineCode') return CODE
  if (node.type === 'html') return node.value === '<br>' ? LINE_BREAK : ''
  if (node.type === 'text') return node.value ?? ''
  if (node.type === 'break') return '\n'
  return (node.children ?? []).map(textOf).join('') || (node.alt ?? '')
}

/** A table is a paragraph to CommonMark. */
function cellsOf(text: string, line: number): Piece[] {
  return text
    .split('\n')
    .flatMap((row, index) =>
      row.split(/[|\u2028]/).map((cell) => ({ line: line + index, text: cell.trim() })),
    )
    .filter((cell) => /[a-z]/i.test(cell.text))
}
