import { nameOf, nodeAt, nodesAt, nodesIn, type SourceFile, textOf } from './source-files.ts'

const INSTRUMENTS: ReadonlySet<string> = new Set(['counter', 'gauge', 'gaugeRows', 'histogram'])
const METRIC = /^(davit|controller_runtime)_[a-z_]+$/

/** Names of the metrics that the source registers. */
export function metricCalls(sources: readonly SourceFile[]): string[] {
  return sources.flatMap(({ program }) =>
    [...nodesIn(program)].flatMap((node) => {
      const [first] = nodesAt(node, 'arguments')
      const isCall = node.type === 'CallExpression' && INSTRUMENTS.has(nameOf(nodeAt(node, 'callee')) ?? '')
      const name = isCall && first ? textOf(first) : undefined
      return name !== undefined && METRIC.test(name) ? [name] : []
    }),
  )
}
