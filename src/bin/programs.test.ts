/** The two programs on a box as processes: arguments, input, output and exit code. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, it } from 'vitest'

const VERSION = 'credentialprovider.kubelet.k8s.io/v1'
const REQUEST = { apiVersion: VERSION, kind: 'CredentialProviderRequest', image: 'quay.io/acme/api' }

const folder = mkdtempSync(join(tmpdir(), 'davit-programs-'))
const file = join(folder, 'acme', 'web', 'credentials.json')
mkdirSync(join(folder, 'acme', 'web'), { recursive: true })
const template = { namespace: 'acme', name: 'web' }
writeFileSync(file, JSON.stringify({ version: 1, template, bake: 'web-1', credentials: [] }), { mode: 0o644 })
afterAll(() => rmSync(folder, { recursive: true }))

function run(name: string, args: readonly string[], input: string, environment: Record<string, string> = {}) {
  const program = fileURLToPath(new URL(`./${name}.ts`, import.meta.url))
  const { status, stdout, stderr } = spawnSync(process.execPath, [program, ...args], {
    input,
    encoding: 'utf8',
    env: { PATH: process.env.PATH, DAVIT_CREDENTIALS: folder, ...environment },
  })
  return { status, stdout, stderr }
}

describe('davit-credential-provider', () => {
  const ask = (...args: string[]) => run('davit-credential-provider', args, JSON.stringify(REQUEST))

  it.each([
    [],
    ['get-credentials'],
    ['--v=3'],
    ['get-credentials', '--logtostderr', '-x', ''],
    ['--version', 'get-credentials'],
    ['--help'],
  ])('answers whatever the arguments in the configuration of kubelet are: %j', (...args) => {
    const { status, stdout, stderr } = ask(...args)
    expect(status).toBe(0)
    expect(JSON.parse(stdout)).toMatchObject({
      apiVersion: VERSION,
      kind: 'CredentialProviderResponse',
      auth: {},
    })
    expect(stderr).toContain('no credential for quay.io/acme/api')
  })

  it('says its version to people', () => {
    expect(ask('--version')).toMatchObject({
      status: 0,
      stdout: expect.stringMatching(/^davit-credential-provider \d+\.\d+\.\d+\n$/),
    })
  })
})

describe('docker-credential-davit', () => {
  it.each([
    ['https://index.docker.io/v1/', {}],
    ['quay.io', { DAVIT_CREDENTIALS: '/nowhere' }],
    ['ghcr.io', { DAVIT_CREDENTIALS: 'relative', DAVIT_KEEP_SECONDS: 'x' }],
    ['x'.repeat(100_000), {}],
  ])('erases nothing well, whatever its settings are', (input, environment) => {
    const erased = run('docker-credential-davit', ['erase'], input, environment)
    expect(erased).toEqual({ status: 0, stdout: '', stderr: '' })
  })

  it.each(['get', 'list', 'store'])('says in %s what is wrong with its settings', (action) => {
    const environment = { DAVIT_KEEP_SECONDS: 'x' }
    expect(run('docker-credential-davit', [action], 'ghcr.io', environment)).toMatchObject({
      status: 1,
      stdout: expect.stringContaining('DAVIT_KEEP_SECONDS must be a whole number'),
    })
  })

  it.each([[], ['get', 'ghcr.io']])('says how it is used with %j', (...args) => {
    const { status, stdout } = run('docker-credential-davit', args, '')
    expect({ status, stdout }).toEqual({
      status: 1,
      stdout: 'Usage: docker-credential-davit <store|get|erase|list|version>\n',
    })
  })
})
