/** The real podman, and skopeo, with docker-credential-davit between them and a private registry. */
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { makeImage } from '../../playground/bakes/images.ts'
import { BoxBed, type Ran } from '../support/box/box-bed.ts'
import { blockOf } from '../support/box/page.ts'
import { startTestRegistry, type TestRegistry } from '../support/registry/test-registry.ts'
import { createTestAuthority } from '../support/tls.ts'

const SECRET = 'canary-of-podman-77ab'
const AUTHORITY = createTestAuthority()

let bed: BoxBed

beforeAll(async () => {
  bed = await BoxBed.start()
  await mkdir(join(bed.folder, 'certs'))
  await writeFile(join(bed.folder, 'certs', 'ca.crt'), AUTHORITY.ca)
  await writeFile(join(bed.folder, 'policy.json'), '{"default":[{"type":"insecureAcceptAnything"}]}')
  await writeFile(join(bed.folder, 'registries.conf'), '')
})

beforeEach(() => bed.removeMaps())

afterAll(async () => {
  expect(bed.aws.defects).toEqual([])
  expect(await filesWith(SECRET)).toEqual([])
  await bed.stop()
})

const files = () => ({ policy: join(bed.folder, 'policy.json'), certs: join(bed.folder, 'certs') })

function environment(): Record<string, string> {
  return {
    CONTAINERS_REGISTRIES_CONF: join(bed.folder, 'registries.conf'),
    TMPDIR: bed.folder,
    // Where podman keeps logins of its own.
    XDG_RUNTIME_DIR: bed.folder,
  }
}

/** As root, with a store of its own. */
function podman(args: readonly string[], more: Record<string, string> = {}): Promise<Ran> {
  const folder = (name: string) => join(bed.folder, name)
  const store = ['--root', folder('store'), '--runroot', folder('run'), '--storage-driver', 'vfs']
  return bed.run('podman', [...store, ...args], { environment: { ...environment(), ...more } })
}

function login(...args: string[]): Promise<Ran> {
  return podman(['login', '--cert-dir', files().certs, ...args])
}

function pull(image: string): Promise<Ran> {
  return podman(['pull', '--cert-dir', files().certs, '--signature-policy', files().policy, image])
}

/** The configuration of the page, for this registry instead of the one that the page speaks of. */
async function configure(host: string): Promise<void> {
  const text = blockOf('json', 'credHelpers').replaceAll('registry.example.com:5000', host)
  await mkdir(join(bed.folder, '.docker'), { recursive: true })
  await writeFile(join(bed.folder, '.docker', 'config.json'), text)
}

/** Whatever a tool wrote, images aside. */
async function filesWith(text: string): Promise<string[]> {
  const entries = await readdir(bed.folder, { recursive: true, withFileTypes: true })
  const paths = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name))
  const forms = [text, Buffer.from(`acme-bot:${text}`).toString('base64')]
  const hits = await Promise.all(
    paths.map(async (path) => {
      const content = await readFile(path, 'latin1')
      return forms.some((form) => content.includes(form)) ? [path] : []
    }),
  )
  return hits.flat()
}

describe.each(['basic', 'bearer'] as const)('a private registry with %s', (auth) => {
  let registry: TestRegistry

  beforeAll(async () => {
    registry = await startTestRegistry({
      auth,
      authority: AUTHORITY,
      accounts: { 'acme-bot': { password: SECRET, pulls: ['acme/api'] } },
    })
    await registry.push('acme/api', '1', makeImage({ layers: [`${auth} api`] }))
    await configure(registry.host)
  })

  afterAll(() => registry?.stop())

  const credential = (more: { id?: string; secret?: string; repositories?: string[] } = {}) =>
    bed.token({ id: 'rc_main', registry: registry.host, repositories: ['acme/api'], secret: SECRET, ...more })

  it('takes a login of podman, which types nothing', async () => {
    await bed.map('web', [await credential()])
    const { exitCode, stdout, stderr } = await login(registry.host)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    expect(stdout).toContain(`Existing credentials are valid. Already logged in to ${registry.host}`)
  })

  it('gives podman the image, and nobody without the helper', async () => {
    await bed.map('web', [await credential()])
    const pulled = await pull(`${registry.host}/acme/api:1`)
    expect(pulled).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^[0-9a-f]{64}\n$/) })
    await bed.map('web', [])
    const refused = await pull(`${registry.host}/acme/api:1`)
    expect(refused.exitCode).toBe(125)
    expect(refused.stderr).toContain('unauthorized')
  })

  it('is opened by a helper that is asked for every host', async () => {
    await bed.map('web', [await credential()])
    const home = join(bed.folder, 'home')
    await mkdir(home, { recursive: true })
    const conf = join(home, 'registries.conf')
    await writeFile(conf, blockOf('toml', 'credential-helpers'))
    const known = (host: string) =>
      podman(['login', '--get-login', host], { HOME: home, CONTAINERS_REGISTRIES_CONF: conf })
    expect(await known(registry.host)).toMatchObject({ exitCode: 0, stdout: 'acme-bot\n' })
    expect(await known('quay.io')).toMatchObject({
      exitCode: 125,
      stderr: expect.stringContaining('not logged into quay.io'),
    })
  })

  it('shows the manifest to skopeo', async () => {
    await bed.map('web', [await credential()])
    const args = ['inspect', '--cert-dir', files().certs, '--raw', `docker://${registry.host}/acme/api:1`]
    const { exitCode, stdout } = await bed.run('skopeo', args, { environment: environment() })
    expect({ exitCode, version: JSON.parse(stdout).schemaVersion }).toEqual({ exitCode: 0, version: 2 })
  })

  it('refuses a wrong password in its own words', async () => {
    await bed.map('web', [await credential({ secret: 'not-the-password' })])
    const { exitCode, stderr } = await pull(`${registry.host}/acme/api:1`)
    expect(exitCode).toBe(125)
    expect(stderr).toMatch(/unauthorized|invalid username\/password/)
    expect(stderr).not.toContain('not-the-password')
  })

  it('is not asked where two credentials are for it, and podman says so', async () => {
    const other = { id: 'rc_other', repositories: ['acme/other'] }
    await bed.map('web', [await credential(), await credential(other)])
    const { exitCode, stderr } = await pull(`${registry.host}/acme/api:1`)
    expect(exitCode).toBe(125)
    expect(stderr).toContain(`${registry.host} has 2 credentials here (acme/rc_main, acme/rc_other)`)
    expect(stderr).toContain('receives only the host')
  })

  it('is not asked where the role may not read, and podman says which right is missing', async () => {
    await bed.map('web', [await credential()])
    const { policies } = bed.role
    bed.account.changeRole(bed.role, { policies: {} })
    const { exitCode, stderr } = await pull(`${registry.host}/acme/api:1`)
    bed.role.policies = policies
    expect(exitCode).toBe(125)
    expect(stderr).toContain("This machine's role needs ssm:GetParameter on /davit/acme/rc_main")
  })

  it('is not asked where there is no map, and podman says where it was looked for', async () => {
    const { exitCode, stderr } = await pull(`${registry.host}/acme/api:1`)
    expect(exitCode).toBe(125)
    expect(stderr).toContain(
      `The credentials file of this box cannot be used: ${bed.folder}/maps does not exist.`,
    )
  })

  const typed = () =>
    login(
      ...['--authfile', join(bed.folder, '.docker', 'config.json')],
      ...['-u', 'acme-bot', '-p', SECRET, registry.host],
    )

  it('takes a login that is typed, and podman says why the file that names the helper keeps none', async () => {
    await bed.map('web', [await credential({ secret: 'another secret' })])
    const { exitCode, stderr } = await typed()
    expect(exitCode).toBe(125)
    expect(stderr).toContain('out: `This helper does not store credentials. Create a RegistryCredential')
  })

  it('takes a login that is typed and that the helper gives anyway', async () => {
    await bed.map('web', [await credential()])
    expect(await typed()).toMatchObject({ exitCode: 0, stdout: expect.stringContaining('Login Succeeded!') })
  })

  /** Whether the file that a logout changes names the helper, or the configuration for every host. */
  const named = () => ['--authfile', join(bed.folder, '.docker', 'config.json')]
  const everyHost = async () => {
    const conf = join(bed.folder, 'helper.conf')
    await writeFile(conf, blockOf('toml', 'credential-helpers'))
    return { CONTAINERS_REGISTRIES_CONF: conf }
  }
  const skopeo = (...args: string[]) => bed.run('skopeo', args, { environment: environment() })

  it.each([
    ['podman', async (host: string) => podman(['logout', ...named(), host])],
    [
      'podman with a helper for every host',
      async (host: string) => podman(['logout', host], await everyHost()),
    ],
    ['podman from every host', async () => podman(['logout', '--all'], await everyHost())],
    ['skopeo', async (host: string) => skopeo('logout', ...named(), host)],
    [
      'skopeo with a helper for every host',
      async (host: string) => {
        const { CONTAINERS_REGISTRIES_CONF: conf } = await everyHost()
        return await skopeo('--registries-conf', conf, 'logout', host)
      },
    ],
  ] as const)('ends a logout of %s well, and stays open', async (_, logout) => {
    await bed.map('web', [await credential()])
    const { exitCode, stderr } = await logout(registry.host)
    expect({ exitCode, stderr }).toEqual({ exitCode: 0, stderr: '' })
    await configure(registry.host)
    expect((await pull(`${registry.host}/acme/api:1`)).exitCode).toBe(0)
  })
})
