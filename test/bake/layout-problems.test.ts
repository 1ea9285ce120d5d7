/** What the chaos of bakes looks at sees a box that is not whole. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { makeImage } from '../../playground/bakes/images.ts'
import { layoutProblems } from '../chaos/bakes/layout-problems.ts'

const IMAGE = makeImage({ layers: ['base', 'api'] })
const [, LAYER] = IMAGE.blobs

let folder: string
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'davit-layout-'))
  const blobs = join(folder, 'blobs/sha256')
  mkdirSync(blobs, { recursive: true })
  for (const { digest, bytes } of [...IMAGE.blobs, IMAGE.manifest])
    writeFileSync(join(blobs, digest.slice(7)), bytes)
  write('oci-layout', { imageLayoutVersion: '1.0.0' })
  const annotations = { 'org.opencontainers.image.ref.name': 'api' }
  const { digest, bytes } = IMAGE.manifest
  write('index.json', { schemaVersion: 2, manifests: [{ digest, size: bytes.length, annotations }] })
})
afterEach(() => rmSync(folder, { recursive: true }))

const write = (name: string, value: unknown) => writeFileSync(join(folder, name), JSON.stringify(value))
const layer = () => join(folder, 'blobs/sha256', LAYER?.digest.slice(7) ?? '')

it('a whole box has no problem', () => expect(layoutProblems(folder, ['api'])).toEqual([]))

it('a box without a layer is not whole, wherever else its manifest says that the layer is', () => {
  const image = makeImage({ layers: ['base', 'api'], urls: ['https://elsewhere.test/layer'] })
  const { digest, bytes } = image.manifest
  writeFileSync(join(folder, 'blobs/sha256', digest.slice(7)), bytes)
  const annotations = { 'org.opencontainers.image.ref.name': 'api' }
  write('index.json', { schemaVersion: 2, manifests: [{ digest, size: bytes.length, annotations }] })
  rmSync(layer())
  expect(layoutProblems(folder, ['api'])).toEqual([expect.stringMatching(/is missing$/)])
})

it.each([
  ['has not a blob', () => rmSync(layer()), /is missing$/],
  ['has a blob that was cut off', () => writeFileSync(layer(), 'half'), /is another one$/],
  ['has no index', () => rmSync(join(folder, 'index.json')), /cannot be read/],
  ['is no layout', () => write('oci-layout', {}), /^it is no layout$/],
  ['has other services', () => write('index.json', { manifests: [] }), /^it has the services $/],
])('a box that %s is not whole', (_name, spoil, want) => {
  spoil()
  expect(layoutProblems(folder, ['api'])).toEqual([expect.stringMatching(want)])
})
