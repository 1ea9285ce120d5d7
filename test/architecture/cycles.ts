/**
 * Cycles of a graph, each once, as a path that ends where it begins. Where two share a node, at least one of them
 * is found: enough to break them one after the other.
 */
export function findCycles(graph: ReadonlyMap<string, readonly string[]>): string[][] {
  const done = new Set<string>()
  const path: string[] = []
  const cycles: string[][] = []
  const visit = (node: string): void => {
    const at = path.indexOf(node)
    if (at >= 0) cycles.push([...path.slice(at), node])
    if (at >= 0 || done.has(node)) return
    path.push(node)
    for (const next of graph.get(node) ?? []) visit(next)
    path.pop()
    done.add(node)
  }
  for (const node of graph.keys()) visit(node)
  return cycles
}
