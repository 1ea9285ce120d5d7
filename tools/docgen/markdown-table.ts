/** A cell with several entries has a line for each; a single-line Markdown cell is used unchanged. */
export type Cell = string | readonly string[] | { markdown: string }

/** A Markdown table; cells may contain code in backticks, everything else in them is text. */
export function markdownTable(head: readonly string[], rows: readonly (readonly Cell[])[]): string {
  const lines = [head, head.map(() => '---'), ...rows.map((row) => row.map(cell))]
  return lines.map((line) => `| ${line.join(' | ')} |\n`).join('')
}

export function cell(content: Cell): string {
  if (typeof content === 'object' && 'markdown' in content) return content.markdown
  return [content].flat().map(escaped).join('<br>')
}

function escaped(text: string): string {
  // Every second part is between backticks.
  const parts = text.split('`').map((part, i) => (i % 2 === 0 ? part.replaceAll(/[*_<>[\]]/g, '\\$&') : part))
  return parts.join('`').replaceAll('|', '\\|').replaceAll('\n', ' ')
}
