/** A release goes to a real registry: the image with its digest, and the chart, which Helm installs from there. */
import { randomBytes } from 'node:crypto'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDebianRegistry } from '../../playground/bakes/debian-registry.ts'
import { makeImage } from '../../playground/bakes/images.ts'
import { KUBERNETES_VERSION } from '../../playground/control-plane/find-binaries.mjs'
import { checkSources, NotReadyError, publish } from '../../tools/release/publish.ts'
import { findChartTools } from '../support/chart/chart-tools.ts'
import { CHART, HELMS, type HelmName, helm } from '../support/chart/helm.ts'
import { createTestAuthority } from '../support/tls.ts'

const VERSION = '0.1.0'
const USER = 'releaser'

let folder: string
let registry: Awaited<ReturnType<typeof startDebianRegistry>>
let place: string
const before = { ...process.env }

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-release-test-'))
  const authority = createTestAuthority()
  const tls = authority.issue(['127.0.0.1'])
  const password = randomBytes(16).toString('hex')
  registry = await startDebianRegistry({ tls, auth: { kind: 'basic', users: { [USER]: password } } })
  place = `127.0.0.1:${registry.port}`
  const auth = Buffer.from(`${USER}:${password}`).toString('base64')
  await writeFile(join(folder, 'auth.json'), JSON.stringify({ auths: { [place]: { auth } } }))
  await writeFile(join(folder, 'ca.pem'), authority.ca)
  // Where `skopeo login` and `helm registry login` keep their logins.
  process.env.REGISTRY_AUTH_FILE = join(folder, 'auth.json')
  process.env.HELM_REGISTRY_CONFIG = join(folder, 'auth.json')
  process.env.SSL_CERT_FILE = join(folder, 'ca.pem')
})

afterAll(async () => {
  process.env = before
  await registry?.stop()
  await rm(folder, { recursive: true, force: true })
})

/** An OCI layout as `tools/image.mjs` makes it, with a small image. */
async function layout(name: string): Promise<string> {
  const { blobs, manifest, mediaType } = makeImage({ layers: [name] })
  const path = join(folder, name)
  await mkdir(join(path, 'blobs/sha256'), { recursive: true })
  for (const { digest, bytes } of [...blobs, manifest])
    await writeFile(join(path, 'blobs/sha256', digest.replace('sha256:', '')), bytes)
  await writeFile(join(path, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  const annotations = { 'org.opencontainers.image.ref.name': 'davit' }
  const entry = { mediaType, digest: manifest.digest, size: manifest.bytes.length, annotations }
  await writeFile(join(path, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [entry] }))
  return path
}

async function publishTo(path: string, image: string, name: HelmName = 'helm4'): Promise<string[]> {
  const said: string[] = []
  const work = await mkdtemp(join(folder, 'work-'))
  const programs = { skopeo: 'skopeo', helm: join(await findChartTools(), name) }
  const registry = `${place}/${path}`
  await publish({
    registry,
    version: VERSION,
    image,
    chart: CHART,
    work,
    programs,
    say: (line) => said.push(line),
  })
  return said
}

describe('a release', () => {
  test.each(HELMS)('with %s can be installed from the registry, and repeated', async (name) => {
    const image = await layout(`image-${name}`)
    const path = `acme-${name}`
    const chart = `oci://${place}/${path}/charts/davit`
    expect(await publishTo(path, image, name)).toEqual([
      `pushing ${place}/${path}/davit:${VERSION}`,
      `pushing ${chart} ${VERSION}`,
    ])
    const settings = [
      '--version',
      VERSION,
      '--kube-version',
      KUBERNETES_VERSION,
      '--set',
      'image.repository=x',
    ]
    const rendered = await helm(name, ['template', 'davit', chart, ...settings])
    expect(rendered).toContain('kind: Deployment')
    expect(await publishTo(path, image, name)).toEqual([
      `${place}/${path}/davit:${VERSION} is there already`,
      `${chart} ${VERSION} is there already`,
    ])
  })

  test('never replaces a version by another image', async () => {
    await publishTo('kept', await layout('first'))
    const second = await layout('second')
    await expect(publishTo('kept', second)).rejects.toThrow(NotReadyError)
  })

  test('fails with the reason when the registry does not accept the login', async () => {
    const image = await layout('unauthorized')
    await writeFile(join(folder, 'none.json'), '{}')
    process.env.REGISTRY_AUTH_FILE = join(folder, 'none.json')
    await expect(publishTo('unauthorized', image)).rejects.toThrow(/unauthorized|authentication required/i)
    process.env.REGISTRY_AUTH_FILE = join(folder, 'auth.json')
  })
})

describe('what is published', () => {
  const ready = {
    changes: '',
    versions: { package: VERSION, chart: VERSION },
    changelog: `# Changelog\n\n## ${VERSION} (2027-01-31)\n`,
  }

  test('is committed, dated and of one version', () => {
    expect(() => checkSources(ready)).not.toThrow()
  })

  test.each([
    [{ changes: ' M README.md\n' }, 'not committed:\n M README.md'],
    [{ versions: { package: VERSION, chart: '0.2.0' } }, 'Chart.yaml has 0.2.0'],
    [{ changelog: '# Changelog\n' }, 'no section for version 0.1.0'],
    [{ changelog: `## ${VERSION} (unreleased)\n` }, 'has no date'],
  ])('%j is not ready', (change, message) => {
    expect(() => checkSources({ ...ready, ...change })).toThrow(message)
  })
})
