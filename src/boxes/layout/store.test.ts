import { createHash } from 'node:crypto'
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { blobOf, type Image, makeImage } from '../../../playground/bakes/images.ts'
import { type BoxFolder, type BoxStoreOptions, createBoxStore, createScratchStore } from './store.ts'

let output: string
let warnings: string[]
const log = { warn: (_event: string, message: string) => void warnings.push(message) }
beforeEach(() => {
  warnings = []
  output = mkdtempSync(join(tmpdir(), 'davit-output-'))
})
afterEach(() => rmSync(output, { recursive: true }))

const CREDENTIALS = {
  version: 1 as const,
  template: { namespace: 'acme', name: 'shop' },
  bake: 'one',
  credentials: [],
}
const store = (bake: string, more: Partial<BoxStoreOptions> = {}) =>
  createBoxStore({ output, template: 'shop', bake, clock: { now: Date.now }, log, ...more })

/** As the tool leaves it. */
async function fill(folder: BoxFolder, service: string, image: Image): Promise<void> {
  const blobs = join(folder.blobs, 'sha256')
  mkdirSync(blobs, { recursive: true })
  for (const { digest, bytes } of [...image.blobs, image.manifest])
    writeFileSync(join(blobs, digest.slice(7)), bytes)
  const { digest, bytes } = image.manifest
  const manifests = [{ mediaType: image.mediaType, digest, size: bytes.length, annotations: { a: 'b' } }]
  writeFileSync(
    join(await folder.folderOf(service), 'index.json'),
    JSON.stringify({ schemaVersion: 2, manifests }),
  )
}

async function bake(
  name: string,
  images: Readonly<Record<string, Image>>,
  more?: Partial<BoxStoreOptions>,
): Promise<void> {
  const folder = await store(name, more).open()
  for (const [service, image] of Object.entries(images)) {
    await fill(folder, service, image)
    await folder.verify(service)
  }
  const services = Object.entries(images).map(([service, { manifest }]) => ({
    name: service,
    image: `registry.test/${service}:1.0`,
    digest: manifest.digest,
  }))
  await folder.publish(services, { ...CREDENTIALS, bake: name })
}

const read = (name: string) => JSON.parse(readFileSync(join(output, 'shop', name), 'utf8'))

describe('a baked box', () => {
  it('is an OCI layout with one image for each service, which says where it is from', async () => {
    const [api, db] = [makeImage({ layers: ['base', 'api'] }), makeImage({ layers: ['base', 'db'] })]
    await bake('one', { api, db })
    expect(read('oci-layout')).toEqual({ imageLayoutVersion: '1.0.0' })
    expect(read('credentials.json')).toEqual(CREDENTIALS)
    const { manifests } = read('index.json')
    expect(manifests.map(({ annotations }: { annotations: unknown }) => annotations)).toEqual(
      [api, db].map((image, index) => ({
        'org.opencontainers.image.ref.name': ['api', 'db'][index],
        'davit.dev/image': `registry.test/${['api', 'db'][index]}:1.0`,
        'davit.dev/digest': image.manifest.digest,
      })),
    )
    // The base is stored once: two manifests, two configs, three layers.
    const blobs = readdirSync(join(output, 'shop/blobs/sha256'))
    expect(blobs.length).toBe(7)
    for (const name of blobs) {
      const bytes = readFileSync(join(output, 'shop/blobs/sha256', name))
      expect(createHash('sha256').update(bytes).digest('hex')).toBe(name)
    }
    expect(readdirSync(join(output, 'shop')).sort()).toEqual([
      'blobs',
      'credentials.json',
      'index.json',
      'oci-layout',
    ])
  })

  it('has each service of the same image under its name', async () => {
    const image = makeImage({ layers: ['same'] })
    await bake('one', { blue: image, green: image })
    const names = read('index.json').manifests.map(
      ({ annotations }: { annotations: Record<string, string> }) =>
        annotations['org.opencontainers.image.ref.name'],
    )
    expect(names).toEqual(['blue', 'green'])
  })

  it('has a service that uses the image of another one, and no image that was not verified', async () => {
    const folder = await store('one').open()
    const image = makeImage({ layers: ['same'] })
    await fill(folder, 'blue', image)
    expect(() => folder.reuse('green', 'blue')).toThrow('the image of blue was not verified')
    await folder.verify('blue')
    folder.reuse('green', 'blue')
    const { digest } = image.manifest
    const services = ['blue', 'green'].map((name) => ({ name, image: 'registry.test/same:1', digest }))
    await folder.publish(services, CREDENTIALS)
    const { manifests } = read('index.json')
    expect(manifests).toMatchObject([
      { digest, annotations: { 'org.opencontainers.image.ref.name': 'blue' } },
      { digest, annotations: { 'org.opencontainers.image.ref.name': 'green' } },
    ])
    expect(readdirSync(join(output, 'shop/blobs/sha256')).length).toBe(3)
  })

  it('takes the place of the one before in one step', async () => {
    await bake('one', { api: makeImage({ layers: ['one'] }) })
    const first = readlinkSync(join(output, 'shop'))
    await bake('two', { api: makeImage({ layers: ['two'] }) })
    expect([first, readlinkSync(join(output, 'shop'))]).toEqual(['.davit/shop/one', '.davit/shop/two'])
    // Who is still reading the one before may go on, until the next bake.
    expect(existsSync(join(output, first, 'index.json'))).toBe(true)
    await bake('three', { api: makeImage({ layers: ['three'] }) })
    expect(readdirSync(join(output, '.davit/shop')).sort()).toEqual(['three', 'two'])
  })

  it('leaves out what no image needs', async () => {
    const folder = await store('one').open()
    const image = makeImage({ layers: ['one'] })
    await fill(folder, 'api', image)
    writeFileSync(join(folder.blobs, 'sha256', 'f'.repeat(64)), 'of an attempt that failed')
    await folder.verify('api')
    await folder.publish(
      [{ name: 'api', image: 'registry.test/api:1.0', digest: image.manifest.digest }],
      CREDENTIALS,
    )
    expect(readdirSync(join(output, 'shop/blobs/sha256')).length).toBe(3)
  })

  it.each([[[]], [['https://elsewhere.test/layer']]])(
    'has a layer that says that it is somewhere else too, in %j',
    async (urls) => {
      const image = makeImage({ layers: ['one'], urls })
      await bake('one', { api: image })
      const want = [...image.blobs, image.manifest].map(({ digest }) => digest.slice(7))
      expect(readdirSync(join(output, 'shop/blobs/sha256')).sort()).toEqual(want.sort())
    },
  )

  it('leaves out what only an attempt before has needed', async () => {
    const folder = await store('one').open()
    await fill(folder, 'api', makeImage({ layers: ['base', 'before'] }))
    await folder.verify('api')
    const image = makeImage({ layers: ['base', 'now'] })
    await fill(folder, 'api', image)
    await folder.verify('api')
    await folder.publish(
      [{ name: 'api', image: 'registry.test/api:1.0', digest: image.manifest.digest }],
      CREDENTIALS,
    )
    const want = [...image.blobs, image.manifest].map(({ digest }) => digest.slice(7))
    expect(readdirSync(join(output, 'shop/blobs/sha256')).sort()).toEqual(want.sort())
  })

  it('is on the disk with all of its folders before the rename, and the rename after it', async () => {
    const synced: string[] = []
    const sync = async (folder: string) => {
      synced.push(`${folder.slice(output.length)}${existsSync(join(output, 'shop')) ? ' in its place' : ''}`)
    }
    await bake('one', { api: makeImage({ layers: ['one'] }) }, { sync })
    expect(synced).toEqual([
      '/.davit/shop/one/blobs/sha256',
      '/.davit/shop/one/blobs',
      '/.davit/shop/one',
      '/.davit/shop',
      '/.davit',
      ' in its place',
    ])
  })

  it('is baked, whatever goes wrong after it was put in its place', async () => {
    const sync = async (folder: string) => {
      if (folder === output) throw new Error('EIO')
    }
    await bake('one', { api: makeImage({ layers: ['one'] }) }, { sync })
    expect(read('credentials.json').bake).toBe('one')
    expect(warnings).toEqual([expect.stringContaining('published the box')])
  })

  it('is not touched when the same bake is told to run again', async () => {
    await bake('one', { api: makeImage({ layers: ['one'] }) })
    const folder = await store('one').open()
    expect(read('index.json').manifests.length).toBe(1)
    await folder.discard()
    expect(read('index.json').manifests.length).toBe(1)
  })
})

describe('a bake that fails', () => {
  it('leaves nothing but the box of before', async () => {
    await bake('one', { api: makeImage({ layers: ['one'] }) })
    const folder = await store('two').open()
    await fill(folder, 'api', makeImage({ layers: ['two'] }))
    await folder.discard()
    expect(readdirSync(join(output, '.davit/shop'))).toEqual(['one'])
    expect(read('credentials.json').bake).toBe('one')
  })

  it('or was killed is removed by the next one, also its link', async () => {
    mkdirSync(join(output, '.davit/shop/dead/blobs/sha256'), { recursive: true })
    writeFileSync(join(output, '.davit/shop/dead/blobs/sha256/half'), 'half')
    symlinkSync('dead', join(output, '.davit/shop/dead.link'))
    await bake('two', { api: makeImage({ layers: ['two'] }) })
    expect(readdirSync(join(output, '.davit/shop'))).toEqual(['two'])
  })

  it.each([
    [
      'was changed',
      (bytes: Buffer) => Buffer.concat([bytes.subarray(1), Buffer.from('x')]),
      'its content has the digest',
    ],
    ['was cut off', (bytes: Buffer) => bytes.subarray(0, -1), 'its content has the digest'],
  ])('because a blob %s says which', async (_name, change, want) => {
    const folder = await store('one').open()
    const image = makeImage({ layers: ['one'] })
    await fill(folder, 'api', image)
    const [, layer] = image.blobs
    if (!layer) throw new Error('no layer')
    writeFileSync(join(folder.blobs, 'sha256', layer.digest.slice(7)), change(layer.bytes))
    await expect(folder.verify('api')).rejects.toMatchObject({
      kind: 'damaged',
      message: expect.stringMatching(new RegExp(`${layer.digest}.*${want}`)),
    })
  })

  it('because a blob is not there says so', async () => {
    const folder = await store('one').open()
    const image = makeImage({ layers: ['one'] })
    await fill(folder, 'api', image)
    rmSync(join(folder.blobs, 'sha256', image.blobs[1]?.digest.slice(7) ?? ''))
    await expect(folder.verify('api')).rejects.toMatchObject({ kind: 'failed' })
  })

  it('because a layer is not to be distributed says that, and where it is', async () => {
    const folder = await store('one').open()
    const image = makeImage({ layers: ['one'], urls: ['https://elsewhere.test/layer'] })
    await fill(folder, 'api', image)
    const layer = image.blobs[1]?.digest ?? ''
    rmSync(join(folder.blobs, 'sha256', layer.slice(7)))
    await expect(folder.verify('api')).rejects.toMatchObject({
      kind: 'failed',
      message: expect.stringMatching(`${layer} is non-distributable .*https://elsewhere.test/layer`),
    })
  })

  it('because something else is in the place of the box leaves that alone', async () => {
    mkdirSync(join(output, 'shop'))
    writeFileSync(join(output, 'shop/mine'), '')
    await expect(store('one').open()).rejects.toMatchObject({
      name: 'StoreError',
      kind: 'failed',
      message: expect.stringMatching(/shop was not created by a bake/),
    })
    expect(readdirSync(join(output, 'shop'))).toEqual(['mine'])
  })
})

it('images that are only verified are dropped', async () => {
  const place = join(output, 'scratch')
  const folder = await createScratchStore(place, { log }).open()
  await fill(folder, 'api', makeImage({ layers: ['one'] }))
  await folder.verify('api')
  await folder.publish([], CREDENTIALS)
  await folder.discard()
  expect(readdirSync(output)).toEqual([])
})

describe('the platform of an image', () => {
  /** An image, or an artifact, with this config. */
  function withConfig(content: string): Image {
    const image = makeImage({ layers: ['one'] })
    const config = blobOf(content)
    const manifest = JSON.parse(image.manifest.bytes.toString())
    const descriptor = { ...manifest.config, digest: config.digest, size: config.bytes.length }
    const blobs = [config, ...image.blobs.slice(1)]
    return { ...image, blobs, manifest: blobOf(JSON.stringify({ ...manifest, config: descriptor })) }
  }
  const platformOf = async (image: Image) => {
    const folder = await store('one').open()
    await fill(folder, 'api', image)
    return await folder.verify('api')
  }

  it('is that of its config', async () => {
    expect(await platformOf(makeImage({ layers: ['one'], architecture: 'arm64' }))).toEqual({
      os: 'linux',
      architecture: 'arm64',
    })
    const arm = { os: 'linux', architecture: 'arm', variant: 'v7' }
    expect(await platformOf(withConfig(JSON.stringify({ ...arm, config: {} })))).toEqual(arm)
  })

  it.each([
    '{}',
    '[]',
    'no JSON',
    '{"os":"linux"}',
    '{"os":"","architecture":""}',
    `"${'x'.repeat(5_000_000)}"`,
  ])('is none where the config is none of an image', async (config) => {
    expect(await platformOf(withConfig(config))).toBeUndefined()
  })
})
