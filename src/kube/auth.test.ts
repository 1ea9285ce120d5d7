import { chmod, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { type Credentials, inClusterAccess, loadCluster } from './auth.ts'

const folders: string[] = []
afterEach(async () => {
  for (const folder of folders.splice(0)) await rm(folder, { recursive: true })
})

async function folderWith(files: Record<string, string>): Promise<string> {
  const folder = await mkdtemp(path.join(tmpdir(), 'kubeconfig-'))
  folders.push(folder)
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(folder, name), text)
  return folder
}

const base64 = (text: string) => Buffer.from(text).toString('base64')

/** A kubeconfig with one cluster and this user. */
function kubeconfig(
  user: string,
  cluster = `server: https://10.0.0.1:6443\n    certificate-authority-data: ${base64('the authority')}`,
) {
  return `apiVersion: v1
kind: Config
current-context: here
contexts:
- name: here
  context: { cluster: one, user: me }
clusters:
- name: one
  cluster:
    ${cluster}
users:
- name: other
  user: { token: of-another }
- name: me
  user:
    ${user}
`
}

async function load(files: Record<string, string>, clock = new FakeClock()) {
  const folder = await folderWith(files)
  const access = await loadCluster(clock, path.join(folder, 'config'))
  return { folder, access, clock, now: async () => access.credentials.current() as Credentials }
}

const pem = (value: string | Buffer | undefined) => value?.toString()

describe('a kubeconfig', () => {
  it('gives the server, its authority and a token', async () => {
    const { access, now } = await load({ config: kubeconfig('token: sesame') })
    expect([access.origin, access.basePath]).toEqual(['https://10.0.0.1:6443', ''])
    const { headers, tls } = await now()
    expect(headers).toEqual(['authorization', 'Bearer sesame'])
    expect(pem(tls.ca as Buffer)).toBe('the authority')
    expect(tls.rejectUnauthorized).toBeUndefined()
  })

  it('gives a client certificate, from data or from files beside it', async () => {
    const data = `client-certificate-data: ${base64('cert')}\n    client-key-data: ${base64('key')}`
    const first = await (await load({ config: kubeconfig(data) })).now()
    expect([pem(first.tls.cert), pem(first.tls.key), first.headers]).toEqual(['cert', 'key', []])
    const files = 'client-certificate: me.crt\n    client-key: me.key'
    const second = await (await load({ config: kubeconfig(files), 'me.crt': 'c2', 'me.key': 'k2' })).now()
    expect([pem(second.tls.cert), pem(second.tls.key)]).toEqual(['c2', 'k2'])
  })

  it('gives a path before the API, another name of the server, and a wish not to verify', async () => {
    const cluster =
      'server: https://host/k8s/clusters/c-1/\n    tls-server-name: kube\n    insecure-skip-tls-verify: true'
    const { access, now } = await load({ config: kubeconfig('token: t', cluster) })
    expect([access.origin, access.basePath]).toEqual(['https://host', '/k8s/clusters/c-1'])
    expect((await now()).tls).toMatchObject({ servername: 'kube', rejectUnauthorized: false })
  })

  it('reads a client certificate again that was renewed on disk, at most once a minute', async () => {
    const user = 'client-certificate: me.crt\n    client-key: me.key'
    const { folder, clock, now } = await load({ config: kubeconfig(user), 'me.crt': 'c1', 'me.key': 'k1' })
    await writeFile(path.join(folder, 'me.crt'), 'c2')
    clock.advance(59_999)
    await now()
    await settle(20)
    expect(pem((await now()).tls.cert)).toBe('c1')
    clock.advance(1)
    await now()
    await untilOther(now, (held) => pem(held.tls.cert), 'c1')
    expect(pem((await now()).tls.cert)).toBe('c2')
  })

  const spellings = [
    { given: 'YAML', user: 'tokenFile: the-token' },
    { given: 'YAML with quotes', user: '"tokenFile": "the-token"' },
    { given: 'one line', user: '{ tokenFile: the-token }' },
  ]
  it.each(spellings)('reads a token file ($given) beside it, and again each minute', async ({ user }) => {
    const { folder, clock, now } = await load({ config: kubeconfig(user), 'the-token': 'first\n' })
    expect((await now()).headers).toEqual(['authorization', 'Bearer first'])
    await writeFile(path.join(folder, 'the-token'), 'second\n')
    clock.advance(60_000)
    await now()
    await untilOther(now, (held) => held.headers[1], 'Bearer first')
    expect((await now()).headers).toEqual(['authorization', 'Bearer second'])
  })

  it('reads a token file again at once after a refusal', async () => {
    const { folder, access, now } = await load({ config: kubeconfig('tokenFile: t'), t: 'first' })
    await writeFile(path.join(folder, 't'), 'second')
    access.credentials.refused(await now())
    expect((await access.credentials.current()).headers).toEqual(['authorization', 'Bearer second'])
  })

  it('takes the token file of its own user, not of another', async () => {
    const text = kubeconfig('token: mine').replace('{ token: of-another }', '{ tokenFile: of-another }')
    expect((await (await load({ config: text })).now()).headers).toEqual(['authorization', 'Bearer mine'])
  })

  it('runs an exec plugin, and again after a refusal, telling it which protocol is spoken', async () => {
    const plugin = `#!/bin/sh
echo x >> "$(dirname "$0")/runs"
count=$(wc -l < "$(dirname "$0")/runs" | tr -d ' ')
case "$KUBERNETES_EXEC_INFO" in *client.authentication.k8s.io/v1*) ;; *) exit 1 ;; esac
echo '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"run-'$count'-'$GREETING'"}}'
`
    const folder = await folderWith({ plugin })
    await chmod(path.join(folder, 'plugin'), 0o755)
    const user = `exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ${path.join(folder, 'plugin')}
      interactiveMode: Never
      env: [{ name: GREETING, value: hi }]`
    const { access, clock, now } = await load({ config: kubeconfig(user) })
    expect((await now()).headers).toEqual(['authorization', 'Bearer run-1-hi'])
    clock.advance(3_600_000)
    await now()
    access.credentials.refused(await now())
    expect((await access.credentials.current()).headers).toEqual(['authorization', 'Bearer run-2-hi'])
    expect(await readFile(path.join(folder, 'runs'), 'utf8')).toBe('x\nx\n')
  })

  const mistakes = [
    { given: 'no context', text: 'apiVersion: v1\nkind: Config\n', want: /current context is missing/ },
    {
      given: 'a proxy',
      text: kubeconfig('token: t', 'server: https://h\n    proxy-url: http://p'),
      want: /proxy-url/,
    },
    { given: 'no web address', text: kubeconfig('token: t', 'server: ftp://h'), want: /https/ },
    { given: 'an empty token file', text: kubeconfig('tokenFile: config-empty'), want: /empty|ENOENT/ },
  ]
  it.each(mistakes)('says what is wrong with $given', async ({ text, want }) => {
    await expect(load({ config: text, 'config-empty': '' })).rejects.toThrow(want)
  })

  it('that is not there is an error that names it', async () => {
    await expect(loadCluster(new FakeClock(), '/nowhere/config')).rejects.toThrow('/nowhere/config')
  })
})

describe('a service account in a pod', () => {
  it('gives the token of its file, and a new one within a minute', async () => {
    const folder = await folderWith({ token: 'first', 'ca.crt': 'the authority' })
    const clock = new FakeClock()
    const access = await inClusterAccess(clock, folder)
    expect(access.origin).toBe('https://kubernetes.default.svc')
    const now = async () => access.credentials.current() as Credentials
    const before = await now()
    expect([before.headers, pem(before.tls.ca)]).toEqual([['authorization', 'Bearer first'], 'the authority'])
    await writeFile(path.join(folder, 'token'), 'second')
    clock.advance(60_000)
    await now()
    await untilOther(now, (held) => held.headers[1], 'Bearer first')
    const after = await now()
    expect(after.headers[1]).toBe('Bearer second')
    expect(after.tls).toBe(before.tls)
  })

  it('is an error that names the file where there is none', async () => {
    const folder = await folderWith({ 'ca.crt': '' })
    await expect(inClusterAccess(new FakeClock(), folder)).rejects.toThrow(path.join(folder, 'token'))
  })
})

/** Files are read in the background; the test's own limit ends this. */
async function untilOther<T>(now: () => Promise<Credentials>, part: (held: Credentials) => T, old: T) {
  while (part(await now()) === old) await settle(1)
}
