/** Runs Helm on the chart like a user. */
import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { type Document, parseAllDocuments, stringify } from 'yaml'
import { KUBERNETES_VERSION } from '../../../playground/control-plane/find-binaries.mjs'
import { findChartTools } from './chart-tools.ts'

const run = promisify(execFile)

export const CHART = fileURLToPath(new URL('../../../charts/davit', import.meta.url))
export const HELMS = ['helm3', 'helm4'] as const
export type HelmName = (typeof HELMS)[number]

export type Values = Readonly<Record<string, unknown>>

export type Manifest = {
  apiVersion: string
  kind: string
  metadata: {
    name: string
    namespace?: string
    labels?: Record<string, string>
    annotations?: Record<string, string>
  }
  [more: string]: unknown
}

/** Of most tests. */
export const RELEASE = { name: 'davit', namespace: 'davit-system' }

const LIMIT_MS = 120_000
/** The only required value of an installation. */
const REPOSITORY = 'registry.example.com/davit'

/** Sets an image if an install or an upgrade names no values. @returns its output @throws Error with its error message */
export async function helm(name: HelmName, args: readonly string[], kubeconfig?: string): Promise<string> {
  const program = join(await findChartTools(), name)
  const env = { ...process.env, KUBECONFIG: kubeconfig ?? '/dev/null' }
  const isBare = (args[0] === 'install' || args[0] === 'upgrade') && !args.includes('--values')
  const all = isBare ? [...args, '--set', `image.repository=${REPOSITORY}`] : args
  const { stdout } = await run(program, all, { env, maxBuffer: 2 ** 26, timeout: LIMIT_MS })
  return stdout
}

/** Renders the objects of a release, including its hooks. @param release name and namespace, and the version of its cluster */
export async function template(
  name: HelmName,
  values: Values,
  release: { name: string; namespace: string; kubernetes?: string },
): Promise<Manifest[]> {
  return await withValues(values, async (file) => {
    const version = ['--kube-version', release.kubernetes ?? KUBERNETES_VERSION]
    const args = ['template', release.name, CHART, '--namespace', release.namespace, '--values', file]
    const text = await helm(name, [...args, ...version])
    return manifestsIn(text)
  })
}

/** @param text that Helm printed @throws Error if an object is not valid */
export function manifestsIn(text: string): Manifest[] {
  return parseAllDocuments(text)
    .map(manifestOf)
    .filter((manifest) => manifest !== null)
}

/** What Helm 4 prints after an install. */
export async function notesOf(values: Values): Promise<string> {
  return await withValues(values, async (file) => {
    const args = ['install', 'davit', CHART, '--namespace', 'davit-system', '--values', file]
    const text = await helm('helm4', [...args, '--dry-run=client'])
    return text.slice(text.indexOf('NOTES:'))
  })
}

/** As strict as the API server: a duplicate key is rejected. */
function manifestOf(document: Document): Manifest | null {
  const [error] = document.errors
  if (error) throw error
  return document.toJS() as Manifest | null
}

/** @throws Error with the findings */
export async function lint(name: HelmName, values: Values): Promise<string> {
  return await withValues(values, (file) =>
    helm(name, ['lint', '--strict', '--kube-version', KUBERNETES_VERSION, '--values', file, CHART]),
  )
}

/** Sets an image if the values name none. */
export async function withValues<T>(values: Values, use: (file: string) => Promise<T>): Promise<T> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-values-'))
  try {
    const file = join(folder, 'values.yaml')
    await writeFile(file, stringify({ image: { repository: REPOSITORY }, ...values }))
    return await use(file)
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
