/** Figures of the static structure of the sources. */
import { cyclesOf, importedOnce, importGraph } from './import-graph.ts'
import { commentLineCount, lineCount } from './source-lines.ts'

export type Structure = {
  files: number
  lines: number
  commentLines: number
  /** Lines of the median file. */
  median: number
  longest: { path: string; lines: number }
  /** Files that exactly one other file imports. */
  importedOnce: number
  cycles: string[][]
}

/** @param sources by path from the root of the repository; at least one */
export function structureOf(sources: ReadonlyMap<string, string>): Structure {
  const byLength = [...sources]
    .map(([path, text]) => ({ path, lines: lineCount(text) }))
    .sort((one, other) => one.lines - other.lines)
  const [middle, longest] = [byLength[Math.floor(byLength.length / 2)], byLength.at(-1)]
  if (middle === undefined || longest === undefined) throw new Error('found no sources')
  const graph = importGraph(sources)
  return {
    files: sources.size,
    lines: byLength.reduce((sum, { lines }) => sum + lines, 0),
    commentLines: [...sources.values()].reduce((sum, text) => sum + commentLineCount(text), 0),
    median: middle.lines,
    longest,
    importedOnce: importedOnce(graph).length,
    cycles: cyclesOf(graph),
  }
}

export function structureLines(structure: Structure): string[] {
  const { files, lines, commentLines, median, longest, importedOnce, cycles } = structure
  const share = (100 * importedOnce) / files
  return [
    `product files          ${files}`,
    `product lines          ${lines}`,
    `comment lines          ${commentLines}`,
    `median file            ${median} lines`,
    `longest file           ${longest.lines} lines (${longest.path})`,
    `one importer           ${importedOnce} files, ${share.toFixed(1)} %`,
    `import cycles          ${cycles.length}, with type imports`,
    ...cycles.map((paths) => `  ${paths.length} files: ${paths.join(', ')}`),
  ]
}
