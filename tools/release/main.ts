/**
 * `npm run release -- --registry HOST/PATH [--image FOLDER]` publishes the version of package.json, and then changes the install commands of
 * the pages to it. Log in first, with `skopeo login` and `helm registry login`.
 */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { parse } from 'yaml'
import { published } from './install-lines.ts'
import { checkSources, NotReadyError, publish } from './publish.ts'

const ROOT = fileURLToPath(new URL('../../', import.meta.url))
/** Pages say this until the first version is published. */
const UNPUBLISHED = 'published yet|not released yet|is published:'

const { values } = parseArgs({ options: { registry: { type: 'string' }, image: { type: 'string' } } })
const work = mkdtempSync(join(tmpdir(), 'davit-release-'))
try {
  await release()
} catch (error) {
  console.error(`release: ${error instanceof NotReadyError ? error.message : explain(error)}`)
  process.exitCode = 1
} finally {
  rmSync(work, { recursive: true, force: true })
}

async function release(): Promise<void> {
  const to = published.safeParse({ registry: values.registry ?? null })
  if (!to.success || to.data.registry === null)
    throw new NotReadyError('--registry must be a host and a path, such as ghcr.io/acme.')
  const { registry } = to.data
  const version: string = JSON.parse(read('package.json')).version
  checkSources({
    changes: git('status', '--porcelain'),
    versions: { package: version, chart: parse(read('charts/davit/Chart.yaml')).version },
    changelog: read('CHANGELOG.md'),
  })
  const image = values.image ?? buildImage()
  const chart = join(ROOT, 'charts/davit')
  const programs = { skopeo: 'skopeo', helm: 'helm' }
  await publish({ registry, version, image, chart, work, programs, say: (line) => console.log(line) })
  const file = join(ROOT, 'tools/release/published.json')
  writeFileSync(file, `{ "registry": ${JSON.stringify(registry)} }\n`)
  node('tools/docgen/generate.ts')
  console.log('The install commands name the published version now. Next:')
  const pages = gitGrep(UNPUBLISHED)
  if (pages.length > 0) console.log(`- These lines say that nothing is published; change them:\n${pages}`)
  console.log(`- Commit the changes, then tag the commit: git tag -s v${version}`)
}

function buildImage(): string {
  const folder = join(work, 'image')
  console.log('building the image, which takes several minutes')
  node('tools/image.mjs', '--out', folder)
  return folder
}

function read(path: string): string {
  return readFileSync(join(ROOT, path), 'utf8')
}

function node(...args: string[]): void {
  execFileSync(process.execPath, args, { cwd: ROOT, stdio: 'inherit' })
}

function git(...args: string[]): string {
  return execFileSync('git', args, { cwd: ROOT, encoding: 'utf8' })
}

/** @returns lines as `file:line: text`; empty if there are none */
function gitGrep(pattern: string): string {
  try {
    return git(
      'grep',
      '-nE',
      pattern,
      '--',
      'README.md',
      'docs/releases',
      'docs/guides',
      'charts/davit',
    ).trimEnd()
  } catch {
    return ''
  }
}

function explain(error: unknown): string {
  if (error instanceof Error && 'stderr' in error) return `${error.message}\n${error.stderr}`.trim()
  return error instanceof Error ? error.message : String(error)
}
