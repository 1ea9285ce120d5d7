/** Publishes a version: the image and the chart go to a registry. Repeating it goes on where it failed. */
import { execFile } from 'node:child_process'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { chartOf, imageOf } from './install-lines.ts'

const run = promisify(execFile)

/** What has to be changed before a version can be published; a message for people. */
export class NotReadyError extends Error {
  override readonly name = 'NotReadyError'
}

export type Sources = {
  /** `git status --porcelain` */
  changes: string
  /** Of package.json and of Chart.yaml. */
  versions: { package: string; chart: string }
  changelog: string
}

/** @throws NotReadyError */
export function checkSources({ changes, versions, changelog }: Sources): void {
  if (changes.trim() !== '')
    throw new NotReadyError(`The tree has changes that are not committed:\n${changes.trimEnd()}`)
  if (versions.package !== versions.chart)
    throw new NotReadyError(
      `package.json has version ${versions.package}, and charts/davit/Chart.yaml has ${versions.chart}.`,
    )
  const heading = changelog.split('\n').find((line) => line.startsWith(`## ${versions.package}`))
  if (heading === undefined)
    throw new NotReadyError(`CHANGELOG.md has no section for version ${versions.package}.`)
  if (!/^## \S+ \(\d{4}-\d{2}-\d{2}\)$/.test(heading))
    throw new NotReadyError(
      `In CHANGELOG.md, "${heading}" has no date. Write the date of the release: ## ${versions.package} (YYYY-MM-DD)`,
    )
}

export type Publication = {
  /** Host and path. */
  registry: string
  version: string
  /** Folder of an OCI layout with the image `davit`. */
  image: string
  /** Folder of the chart. */
  chart: string
  /** For files. */
  work: string
  programs: { skopeo: string; helm: string }
  say: (line: string) => void
}

/** @throws NotReadyError if another image or chart has the version; Error with the output of a program that failed */
export async function publish(publication: Publication): Promise<void> {
  await publishImage(publication)
  await publishChart(publication)
}

async function publishImage({ registry, version, image, programs: { skopeo }, say }: Publication) {
  const target = `${imageOf(registry)}:${version}`
  const digestOf = async (reference: string) => {
    const { stdout } = await run(skopeo, ['inspect', '--format', '{{.Digest}}', reference])
    return stdout.trim()
  }
  const wanted = await digestOf(`oci:${image}:davit`)
  const there = await digestOf(`docker://${target}`).catch(unlessMissing)
  if (there === wanted) return say(`${target} is there already`)
  if (there !== undefined)
    throw new NotReadyError(
      `${target} exists with the digest ${there}, and this image has ${wanted}. Raise the version: a published version never changes.`,
    )
  say(`pushing ${target}`)
  await run(skopeo, ['copy', '--preserve-digests', `oci:${image}:davit`, `docker://${target}`])
}

async function publishChart({ registry, version, chart, work, programs: { helm }, say }: Publication) {
  const reference = chartOf(registry)
  const there = await run(helm, ['show', 'chart', reference, '--version', version]).catch(unlessMissing)
  if (there !== undefined) return say(`${reference} ${version} is there already`)
  say(`pushing ${reference} ${version}`)
  await run(helm, ['package', chart, '--destination', work])
  await run(helm, [
    'push',
    join(work, `davit-${version}.tgz`),
    reference.slice(0, reference.lastIndexOf('/')),
  ])
}

/** How skopeo and Helm word that a registry does not have something. */
const MISSING = /manifest unknown|name unknown|repository name not known|not found/i

function unlessMissing(error: unknown): undefined {
  if (error instanceof Error && 'stderr' in error && MISSING.test(String(error.stderr))) return undefined
  throw error
}
