/** examples/organization.sh, and the same by hand as docs/guides/onboard-an-organization.md has it: what they create, and what it is good for. */

import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm, symlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { stringify } from 'yaml'
import { commandsOf, runCommands } from '../e2e/page-script.ts'
import { BUILD_LIMIT_MS, findChartTools } from '../support/chart/chart-tools.ts'
import { template } from '../support/chart/helm.ts'
import { runKubectl } from '../support/control-plane-kubectl.ts'
import { type Installation, OPERATOR_NAMESPACE, startInstallation } from '../support/installation.ts'

const SCRIPT_LIMIT_MS = 60_000
const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const SCRIPT = join(ROOT, 'examples/organization.sh')
const PAGE = new URL('../../docs/guides/onboard-an-organization.md', import.meta.url)

type Ran = { code: number; stdout: string; stderr: string }
type Named = { metadata: { name: string } }
type Binding = Named & { roleRef: { name: string }; subjects: { namespace: string; name: string }[] }

let davit: Installation
let folder: string
let baseUrl: string

beforeAll(async () => {
  await findChartTools()
  folder = await mkdtemp(join(tmpdir(), 'davit-organization-'))
  davit = await startInstallation()
  await symlink(davit.controlPlane.binaries.kubectl, join(folder, 'kubectl'))
  // The script finds the ServiceAccount of the controller by the labels of the chart.
  const rendered = await template('helm4', {}, { name: 'davit', namespace: OPERATOR_NAMESPACE })
  const accounts = rendered.filter(({ kind }) => kind === 'ServiceAccount')
  await kubectl(['apply', '-f', '-'], accounts.map((account) => stringify(account)).join('---\n'))
  const server = await davit.startServer()
  await server.process.untilReady()
  baseUrl = server.baseUrl
}, BUILD_LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await rm(folder, { recursive: true, force: true })
})

function kubectl(args: readonly string[], stdin = ''): Promise<string> {
  const { binaries, kubeconfigPath } = davit.controlPlane
  return runKubectl(binaries.kubectl, ['--kubeconfig', kubeconfigPath, ...args], stdin)
}

function environment(more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  const { HOME, PATH } = process.env
  return { HOME, PATH: `${folder}:${PATH}`, KUBECONFIG: davit.controlPlane.kubeconfigPath, ...more }
}

function organizationScript(args: readonly string[], more: NodeJS.ProcessEnv = {}): Promise<Ran> {
  return new Promise((resolve) => {
    const options = { cwd: ROOT, env: environment(more), timeout: SCRIPT_LIMIT_MS }
    execFile(SCRIPT, [...args], options, (error, stdout, stderr) =>
      resolve({ code: error ? Number(error.code) : 0, stdout, stderr }),
    )
  })
}

async function namesOf(kind: string): Promise<string[]> {
  const { items } = JSON.parse(await kubectl(['get', kind, '-o', 'json'])) as { items: Named[] }
  return items.map(({ metadata }) => metadata.name)
}

/** Name, role and subjects of each RoleBinding. */
async function bindingsOf(organization: string): Promise<[string, string, string[]][]> {
  const { items } = JSON.parse(await kubectl(['-n', organization, 'get', 'rolebindings', '-o', 'json'])) as {
    items: Binding[]
  }
  return items.map(({ metadata, roleRef, subjects }) => [
    metadata.name,
    roleRef.name,
    subjects.map((subject) => `${subject.namespace}/${subject.name}`),
  ])
}

const bindingsFor = (organization: string) => [
  ['davit-owner', 'davit-owner', [`${organization}/owner`]],
  ['davit-publisher', 'davit-publisher', [`${organization}/publisher`]],
  ['davit-secrets', 'davit-organization-secrets', [`${OPERATOR_NAMESPACE}/davit-controller`]],
]

function tokenIn(stdout: string, role: 'owner' | 'publisher'): string {
  return new RegExp(`^  ${role} +(\\S+)$`, 'm').exec(stdout)?.[1] ?? ''
}

async function statusOf(method: 'GET' | 'POST', path: string, token: string): Promise<number> {
  const body = method === 'POST' ? JSON.stringify({ type: 'environment.started', data: {} }) : null
  const headers = { authorization: token, ...(body === null ? {} : { 'content-type': 'application/json' }) }
  const { status } = await fetch(`${baseUrl}/organizations/${path}`, { method, headers, body })
  return status
}

describe('the script', () => {
  test('creates an organization whose tokens can do what their roles say, and nothing elsewhere', async () => {
    const { code, stdout, stderr } = await organizationScript(['script'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(await bindingsOf('script')).toEqual(bindingsFor('script'))
    const label = ['get', 'namespace', 'script', '-o', 'jsonpath={.metadata.labels.davit\\.dev/organization}']
    expect(await kubectl(label)).toBe('true')
    const [owner, publisher] = [tokenIn(stdout, 'owner'), tokenIn(stdout, 'publisher')]
    await expect.poll(() => statusOf('GET', 'script/webhooks', owner)).toBe(200)
    await expect.poll(() => statusOf('POST', 'script/events', publisher)).toBe(202)
    expect(await statusOf('GET', 'script/webhooks', publisher)).toBe(403)
    await davit.makeOrganization('another')
    expect(await statusOf('GET', 'another/webhooks', owner)).toBe(404)
    expect(await statusOf('POST', 'another/events', publisher)).toBe(404)
  })

  test('run again, adds what is missing and changes nothing else', async () => {
    const alice = [{ op: 'add', path: '/subjects/-', value: { kind: 'User', name: 'alice' } }]
    await kubectl(['create', 'namespace', 'again'])
    await kubectl(['annotate', 'namespace', 'again', 'davit.dev/owner-emails=alice@example.com'])
    await organizationScript(['again'])
    const patch = ['patch', 'rolebinding', 'davit-owner', '--type=json', '-p', JSON.stringify(alice)]
    await kubectl(['-n', 'again', ...patch])
    await kubectl(['-n', 'again', 'delete', 'serviceaccount', 'publisher'])
    const before = await bindingsOf('again')
    const { code, stdout, stderr } = await organizationScript(['again'])
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(tokenIn(stdout, 'publisher')).not.toBe('')
    expect(await bindingsOf('again')).toEqual(before)
    expect(before[0]).toEqual(['davit-owner', 'davit-owner', ['again/owner', 'undefined/alice']])
    const emails = ['get', 'namespace', 'again', '-o', 'jsonpath={.metadata.annotations}']
    expect(JSON.parse(await kubectl(emails))).toEqual({ 'davit.dev/owner-emails': 'alice@example.com' })
  })

  const NAME = /is not a valid name/
  test.for<[string, string[], RegExp]>([
    ['no name', [], /give the name of the organization/],
    ['an empty name', [''], /give the name of the organization/],
    ['two names', ['one', 'two'], /give the name of the organization/],
    ['an upper-case letter', ['Acme'], NAME],
    ['a dot', ['acme.eu'], NAME],
    ['a dash at the beginning, like an option', ['--help'], NAME],
    ['a dash at the end', ['acme-'], NAME],
    ['two lines', ['acme\nglobex'], NAME],
    ['a name in another folder', ['../acme'], NAME],
    ['64 characters', ['a'.repeat(64)], NAME],
    ['a namespace of Kubernetes', ['kube-system'], /reserved for Kubernetes/],
    ['the namespace of Davit', [OPERATOR_NAMESPACE], /Davit's own namespace/],
  ])('rejects %s, and creates nothing', async ([, args, why]) => {
    const before = await namesOf('namespaces')
    const { code, stdout, stderr } = await organizationScript(args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(why)
    expect(await namesOf('namespaces')).toEqual(before)
    const labels = ['get', 'namespaces', 'kube-system', OPERATOR_NAMESPACE, '--show-labels']
    expect(await kubectl(labels)).not.toContain('davit.dev/organization')
  })

  test('rejects a namespace without Davit, and creates nothing', async () => {
    const { code, stderr } = await organizationScript(['stray'], { DAVIT_NAMESPACE: 'default' })
    expect(code).toBe(2)
    expect(stderr).toContain('Davit is not installed in the namespace default')
    expect(await namesOf('namespaces')).not.toContain('stray')
  })

  test('without a cluster, shows the error of kubectl alone', async () => {
    const { code, stderr } = await organizationScript(['stray'], { KUBECONFIG: '/dev/null' })
    expect(code).toBe(1)
    expect(stderr).not.toContain('organization.sh')
    expect(stderr).toMatch(/connection .*refused/)
  })
})

test('the commands of the page create the same by hand, and what they check is so', async () => {
  const blocks = commandsOf(await readFile(PAGE, 'utf8'))
  const { code, output } = await runCommands(blocks, {
    cwd: ROOT,
    env: environment(),
    limitMs: SCRIPT_LIMIT_MS,
  })
  expect({ code, output: code === 0 ? '' : output }).toEqual({ code: 0, output: '' })
  const bindings = await bindingsOf('acme')
  expect(bindings.filter(([name]) => name.startsWith('davit-'))).toEqual(bindingsFor('acme'))
  expect(output.trimEnd().split('\n').slice(-2)).toEqual(['yes', 'yes'])
  expect(output).toMatch(/^acme +Active/m)
})
