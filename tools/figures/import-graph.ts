import { dirname, join } from 'node:path/posix'
import { readSource } from '../../test/architecture/source-imports.ts'

/** The files that each file imports, including type imports; each file once, and only files of the graph. */
export type ImportGraph = ReadonlyMap<string, ReadonlySet<string>>

/** @param sources by path from the root of the repository */
export function importGraph(sources: ReadonlyMap<string, string>): ImportGraph {
  const importsOf = (path: string, text: string) =>
    readSource(text)
      .imports.flatMap(({ specifier }) =>
        specifier?.startsWith('.') ? [join(dirname(path), specifier)] : [],
      )
      .filter((target) => target !== path && sources.has(target))
  return new Map([...sources].map(([path, text]) => [path, new Set(importsOf(path, text))]))
}

/** Files that exactly one other file imports, in the order of the graph. */
export function importedOnce(graph: ImportGraph): string[] {
  const importers = new Map<string, number>()
  for (const targets of graph.values())
    for (const target of targets) importers.set(target, (importers.get(target) ?? 0) + 1)
  return [...graph.keys()].filter((path) => importers.get(path) === 1)
}

/** Import cycles: strongly connected components of more than one file, by Tarjan's algorithm. */
export function cyclesOf(graph: ImportGraph): string[][] {
  const found: string[][] = []
  const order = new Map<string, number>()
  const open: string[] = []
  /** @returns the position of the earliest open file that this one reaches */
  const visit = (path: string): number => {
    const own = order.size
    order.set(path, own)
    open.push(path)
    let earliest = own
    for (const target of graph.get(path) ?? []) {
      if (!order.has(target)) earliest = Math.min(earliest, visit(target))
      else if (open.includes(target)) earliest = Math.min(earliest, order.get(target) ?? own)
    }
    if (earliest === own) found.push(open.splice(open.indexOf(path)))
    return earliest
  }
  for (const path of graph.keys()) if (!order.has(path)) visit(path)
  return found.filter(({ length }) => length > 1).map((paths) => paths.sort())
}
