/** Renders the chart with each set of values that the tests know, by Helm 4. */
import { findChartTools } from '../../test/support/chart/chart-tools.ts'
import { type Manifest, template } from '../../test/support/chart/helm.ts'
import { VALUE_SETS } from '../../test/support/chart/value-sets.ts'
import { compareLines } from './compare.ts'
import { definitions } from './documents.ts'
import { flatten } from './flatten.ts'

const DEFINITIONS = definitions()
const RELEASE = { name: 'davit', namespace: 'davit-system' }

/**
 * Returns lines by file: those of the first set in full, and for each other set its missing (`-`) and additional (`+`) lines,
 * since nearly everything is the same.
 */
export async function renderedChart(): Promise<Map<string, string[]>> {
  await findHelm()
  const files = new Map<string, string[]>()
  let first: string[] | undefined
  for (const [title, values] of Object.entries(VALUE_SETS)) {
    const lines = (await template('helm4', values, RELEASE)).flatMap(linesOf)
    files.set(`chart/${slugOf(title)}.txt`, first === undefined ? lines : changes(first, lines))
    first ??= lines
  }
  return files
}

async function findHelm(): Promise<void> {
  await findChartTools((line) => console.error(line))
}

function changes(before: readonly string[], now: readonly string[]): string[] {
  const { removed, added } = compareLines(before, now)
  return [...removed.map((line) => `- ${line}`), ...added.map((line) => `+ ${line}`)]
}

function linesOf(manifest: Manifest): string[] {
  const { kind, metadata } = manifest
  const at = [kind, ...(metadata.namespace ? [metadata.namespace] : []), metadata.name].join('/')
  return kind === 'CustomResourceDefinition'
    ? linesOfDefinition(manifest, at)
    : flatten(withJson(manifest), at)
}

/** Only the parts that differ from `crds`, which is another part of the contract. */
function linesOfDefinition({ spec, ...rest }: Manifest, at: string): string[] {
  const known = DEFINITIONS.get(rest.metadata.name)?.definition as { spec?: unknown } | undefined
  const differing = changes(flatten(known?.spec ?? {}), flatten(spec))
  return [
    ...flatten(rest, at),
    `${at}/spec = as in crds.txt`,
    ...differing.map((line) => `${at}/spec: ${line}`),
  ]
}

/** Parses dashboards, which are JSON texts. */
function withJson(manifest: Manifest): Manifest {
  if (manifest.kind !== 'ConfigMap') return manifest
  const entries = Object.entries((manifest.data ?? {}) as Record<string, string>)
  const data = entries.map(([key, text]) => [key, key.endsWith('.json') ? JSON.parse(text) : text])
  return { ...manifest, data: Object.fromEntries(data) as unknown }
}

function slugOf(title: string): string {
  return title.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')
}
