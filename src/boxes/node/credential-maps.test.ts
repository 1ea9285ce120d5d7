import { execFileSync } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { blockOf } from '../../../test/support/box/page.ts'
import { createBoxMaps } from './credential-maps.ts'

let folder: string

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-box-maps-'))
})

afterEach(() => rm(folder, { recursive: true, force: true }))

function map(name: string) {
  const credential = { id: 'rc_ecr', type: 'ecr', registry: 'r.example.com', repositories: ['api'] }
  return { version: 1, template: { namespace: 'acme', name }, bake: `${name}-1`, credentials: [credential] }
}

async function put(path: string, content: unknown): Promise<string> {
  const file = join(folder, path)
  await mkdir(join(file, '..'), { recursive: true })
  await writeFile(file, typeof content === 'string' ? content : JSON.stringify(content))
  return file
}

const read = (path = folder) => createBoxMaps(path).read()
const names = async (path = folder) => (await read(path)).maps.map(({ template }) => template.name)

describe('the maps of a machine', () => {
  it('are one file', async () => {
    expect(await names(await put('any-name.json', map('web')))).toEqual(['web'])
  })

  it('are in a layout, beside what else is in it', async () => {
    await put('credentials.json', map('web'))
    await put('index.json', { schemaVersion: 2 })
    await put('blobs/sha256/abc', 'x')
    expect(await read()).toMatchObject({ maps: [{ template: { name: 'web' } }], problems: [] })
  })

  it('are in the folders of a folder, behind links, and not in hidden ones', async () => {
    await put('.davit/web/bake-1/credentials.json', map('web'))
    await put('.hidden/credentials.json', map('hidden'))
    await put('db/credentials.json', map('db'))
    // Below a layout nothing is an organization.
    await put('db/deeper/credentials.json', map('deeper'))
    await symlink(join('.davit', 'web', 'bake-1'), join(folder, 'web'))
    expect(await names()).toEqual(['db', 'web'])
  })

  it('are used beside one that cannot be read', async () => {
    await put('db/credentials.json', '{')
    await put('web/credentials.json', map('web'))
    expect(await read()).toMatchObject({
      maps: [{ template: { name: 'web' } }],
      problems: [`${folder}/db/credentials.json is not valid JSON`],
    })
  })
})

describe('the lines of the page', () => {
  it('bring the maps of a volume to their places, and new ones into the places of those', async () => {
    const lines = blockOf('sh', 'for map in')
    const script = lines
      .replaceAll('/boxes', join(folder, 'boxes'))
      .replaceAll('/etc/davit', join(folder, 'etc'))
    const bring = () => execFileSync('bash', ['-euc', script])
    await put('boxes/web/credentials.json', map('web'))
    await put('boxes/db/credentials.json', map('db'))
    bring()
    expect(await names(join(folder, 'etc'))).toEqual(['db', 'web'])
    await put('boxes/web/credentials.json', { ...map('web'), bake: 'web-2' })
    bring()
    expect((await read(join(folder, 'etc'))).maps.map(({ bake }) => bake)).toEqual(['db-1', 'web-2'])
    expect((await read(join(folder, 'etc'))).problems).toEqual([])
  })
})

describe('what is wrong with a map is said', () => {
  const problemOf = async (path?: string) => (await read(path)).problems.join()

  it('when there is none', async () => {
    expect(await problemOf()).toBe(`${folder} does not contain a credentials.json`)
    expect(await problemOf(join(folder, 'absent'))).toBe(`${folder}/absent does not exist`)
  })

  it('when there are more of them than boxes on a machine', async () => {
    for (let index = 0; index <= 1000; index += 1)
      await put(`${index < 600 ? 'acme' : 'other'}/web-${index}/credentials.json`, '{}')
    expect(await read()).toEqual({
      maps: [],
      problems: [`${folder} contains more than 1000 credentials files`],
    })
  })

  it('when it is of a later version', async () => {
    await put('credentials.json', { ...map('web'), version: 2 })
    expect(await problemOf()).toContain(
      'is not a credentials file that this version of Davit can read at version',
    )
  })

  it.each(['..', 'a/b', 'Shop'])('when it is of a template that cannot be: %s', async (name) => {
    await put('credentials.json', map(name))
    expect(await problemOf()).toContain('at template.name: must be a DNS label')
  })

  it.each([0o666, 0o664])('when others may write it: %o', async (mode) => {
    await chmod(await put('credentials.json', map('web')), mode)
    expect(await read()).toEqual({
      maps: [],
      problems: [`${folder}/credentials.json is writable by users other than its owner`],
    })
  })

  it.each([0o777, 0o2775])('when others may put another one in its place: %o', async (mode) => {
    await put('web/credentials.json', map('web'))
    await chmod(join(folder, 'web'), mode)
    expect(await problemOf()).toContain('is in a folder that is writable by users other than its owner')
  })

  it('when it belongs to somebody else', async () => {
    await put('credentials.json', map('web'))
    expect((await createBoxMaps(join(folder, 'credentials.json'), [4711]).read()).problems.join()).toContain(
      `is owned by user ${process.getuid?.()}, which is neither root nor`,
    )
    expect((await createBoxMaps(folder, [4711]).read()).maps).toEqual([])
  })

  it('when it says that it is of another organization, or template, than its place', async () => {
    await put('acme/web/credentials.json', map('web'))
    await put('evil/web/credentials.json', map('web'))
    await put('acme/db/credentials.json', map('web'))
    const { maps, problems } = await read()
    expect(maps.map(({ template }) => template)).toEqual([{ namespace: 'acme', name: 'web' }])
    expect(problems).toEqual(
      ['acme/db', 'evil/web'].map(
        (place) =>
          `${folder}/${place}/credentials.json is for the template acme/web, which does not match its path`,
      ),
    )
  })

  it('when its own word is all that says whose it is, beside one of another organization', async () => {
    await put('acme-web/credentials.json', map('web'))
    await put('other/web/credentials.json', { ...map('web'), template: { namespace: 'other', name: 'web' } })
    const { maps, problems } = await read()
    expect(maps.map(({ template }) => template.namespace)).toEqual(['other'])
    expect(problems.join()).toContain(
      `acme-web/credentials.json claims to belong to acme, but its path does not confirm that, and ${folder} contains credentials files of several organizations; move it to ${folder}/acme/web/credentials.json`,
    )
  })

  it('when it is too large', async () => {
    await put('credentials.json', `${JSON.stringify(map('web'))}${' '.repeat(256 * 1024)}`)
    expect(await problemOf()).toContain('is larger than 262144 bytes')
  })

  it('when it is a folder', async () => {
    await mkdir(join(folder, 'web', 'credentials.json'), { recursive: true })
    expect(await problemOf()).toBe(`${folder} does not contain a credentials.json`)
    await mkdir(join(folder, 'credentials.json'))
    expect(await problemOf()).toContain('cannot be read: EISDIR')
  })
})
