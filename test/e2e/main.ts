/** `npm run test:e2e`: see the usage. Prints what it found and a table at the end, and fails when something was not as it must be. */
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parse } from 'yaml'
import { findProgram } from '../../tools/find-program.mjs'
import { NodeCluster } from '../node/cluster.ts'
import { type E2eOptions, parseE2eOptions, USAGE, UsageError } from './e2e-options.ts'
import { startKind } from './kind-cluster.ts'
import { checkPage } from './page-part.ts'
import { DAVIT } from './pods.ts'
import { dockerImage, pushImage, ROOT } from './prepare-image.ts'
import { ReleasePart } from './release-part.ts'
import { Report } from './report.ts'

const PROGRAMS = ['helm', 'kubectl', 'bash', 'curl', 'jq', 'openssl']

async function main(): Promise<number> {
  const report = new Report((line) => process.stdout.write(`${line}\n`))
  try {
    for (const name of PROGRAMS)
      if (findProgram([name]) === undefined) throw new UsageError(`the program ${name} is missing`)
    const hasKind = findProgram(['kind']) !== undefined && findProgram(['docker']) !== undefined
    const version = await versionOfChart()
    const options = parseE2eOptions(process.argv.slice(2), process.env, { hasKind, version })
    await run(options, report)
  } catch (error) {
    if (error instanceof UsageError) {
      process.stderr.write(`${error.message}\n\n${USAGE}\n`)
      return 2
    }
    report.check('the run comes to its end', false, wordsOf(error))
  }
  report.table()
  return report.findings.wrong === 0 ? 0 : 1
}

async function run(options: E2eOptions, report: Report): Promise<void> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'davit-e2e-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const where = await prepare(options, { folder, report, stack })
  const cluster = new NodeCluster(where.kubeconfig)
  await isFree(cluster)
  try {
    const release = new ReleasePart({ ...options, ...where, cluster, folder, report })
    if (options.parts.includes('release')) await release.run()
    const { image } = options
    if (options.parts.includes('page')) await checkPage({ ...where, cluster, image, report })
  } catch (error) {
    await showState(cluster, report)
    throw error
  }
}

/** The cluster, with the image where its nodes find it. */
async function prepare(
  options: E2eOptions,
  { folder, report, stack }: { folder: string; report: Report; stack: AsyncDisposableStack },
): Promise<{ kubeconfig: string; address: string }> {
  const { kubeconfig, address = '', image } = options
  if (kubeconfig !== undefined) {
    report.figure('image', await report.phase('the image', () => pushImage(options, folder)))
    return { kubeconfig, address }
  }
  const reference = `${image.repository}:${image.tag}`
  report.figure('image', await report.phase('the image', () => dockerImage(reference)))
  const kind = await report.phase('a new cluster of kind', () => startKind(folder, reference))
  stack.defer(() => kind.stop())
  return { kubeconfig: kind.kubeconfig, address: address || kind.address }
}

/** An existing Davit is never touched. @throws UsageError */
async function isFree(cluster: NodeCluster): Promise<void> {
  const found = await cluster.kubectl(['get', 'customresourcedefinitions', '-o', 'name'])
  const namespace = await cluster.kubectl(['get', 'namespace', DAVIT, '--ignore-not-found', '-o', 'name'])
  if (found.includes('.davit.dev') || namespace !== '')
    throw new UsageError('the cluster has a Davit already, or what is left of one')
}

/** Collects information for debugging. */
async function showState(cluster: NodeCluster, report: Report): Promise<void> {
  const questions = [
    ['get', 'pods', '-A', '-o', 'wide'],
    ['get', 'events', '-n', DAVIT, '--sort-by=.lastTimestamp'],
    ['logs', '-n', DAVIT, '-l', 'app.kubernetes.io/name=davit', '--tail=20', '--prefix'],
  ]
  for (const args of questions)
    for (const line of (await cluster.kubectl(args).catch(wordsOf)).split('\n')) report.say(line)
}

async function versionOfChart(): Promise<string> {
  const chart = parse(await readFile(join(ROOT, 'charts/davit/Chart.yaml'), 'utf8')) as { appVersion: string }
  return chart.appVersion
}

function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.cause === undefined ? error.message : `${error.message}: ${wordsOf(error.cause)}`
}

process.exitCode = await main()
