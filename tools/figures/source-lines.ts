import { parseSync } from 'oxc-parser'

/** Lines as `wc -l` counts them, whether or not the last one ends with a newline. */
export function lineCount(text: string): number {
  return text === '' ? 0 : text.replace(/\n$/, '').split('\n').length
}

/** Lines with a part of a comment and no code. An empty line within a comment does not count. */
export function commentLineCount(text: string): number {
  let code = text
  for (const { start, end } of parseSync('source.ts', text).comments)
    code = code.slice(0, start) + text.slice(start, end).replace(/[^\n]/g, ' ') + code.slice(end)
  const codeLines = code.split('\n')
  return text.split('\n').filter((line, at) => line.trim() !== '' && codeLines[at]?.trim() === '').length
}
