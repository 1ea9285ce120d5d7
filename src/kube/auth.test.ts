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

  describe('with an exec plugin', () => {
    const TOKEN =
      '{"apiVersion":"client.authentication.k8s.io/v1","kind":"ExecCredential","status":{"token":"t"}}'
    const NOTES = `#!/bin/sh\necho "$KUBERNETES_EXEC_INFO" > "$(dirname "$0")/info"\necho '${TOKEN}'\n`
    const SERVER = `server: https://10.0.0.1:6443
    certificate-authority-data: ${base64('the authority')}`

    const pluginUser = (more = '', command = './plugin') => `exec:
      apiVersion: client.authentication.k8s.io/v1
      command: ${command}
      interactiveMode: IfAvailable${more === '' ? '' : `\n      ${more}`}`

    async function withPlugin(
      script: string,
      config = kubeconfig(pluginUser()),
      files: Record<string, string> = {},
    ) {
      const folder = await folderWith({ plugin: script, config, ...files })
      await chmod(path.join(folder, 'plugin'), 0o755)
      const access = await loadCluster(new FakeClock(), path.join(folder, 'config'))
      return { folder, credentials: (await access.credentials.current()) as Credentials }
    }

    async function infoOf(config: string, files?: Record<string, string>): Promise<unknown> {
      const { folder } = await withPlugin(NOTES, config, files)
      return JSON.parse(await readFile(path.join(folder, 'info'), 'utf8'))
    }

    const infoWith = (spec: object) => ({
      kind: 'ExecCredential',
      apiVersion: 'client.authentication.k8s.io/v1',
      spec: { interactive: false, ...spec },
    })

    it('tells it nothing of the cluster unless the kubeconfig says so', async () => {
      expect(await infoOf(kubeconfig(pluginUser()))).toEqual(infoWith({}))
      expect(await infoOf(kubeconfig(pluginUser('provideClusterInfo: false')))).toEqual(infoWith({}))
    })

    const AUTHORITY = base64('the authority')
    const clusters = [
      {
        given: 'authorities as data',
        cluster: SERVER,
        want: { server: 'https://10.0.0.1:6443', 'certificate-authority-data': AUTHORITY },
      },
      {
        given: 'authorities in a file beside it',
        cluster: 'server: https://host/k8s/clusters/c-1\n    certificate-authority: ca.pem',
        want: { server: 'https://host/k8s/clusters/c-1', 'certificate-authority-data': AUTHORITY },
      },
      {
        given: 'another name, and no verification',
        cluster: 'server: https://host\n    tls-server-name: kube\n    insecure-skip-tls-verify: true',
        want: { server: 'https://host', 'tls-server-name': 'kube', 'insecure-skip-tls-verify': true },
      },
      {
        given: 'what the plugin needs to know of this cluster',
        cluster: `${SERVER}
    extensions:
    - name: somebody.example.com
      extension: { no: matter }
    - name: client.authentication.k8s.io/exec
      extension: { audience: davit, nested: { list: [1, true] } }`,
        want: {
          server: 'https://10.0.0.1:6443',
          'certificate-authority-data': AUTHORITY,
          config: { audience: 'davit', nested: { list: [1, true] } },
        },
      },
    ]
    it.each(clusters)('tells it of the cluster on request: $given', async ({ cluster, want }) => {
      const config = kubeconfig(pluginUser('provideClusterInfo: true'), cluster)
      expect(await infoOf(config, { 'ca.pem': 'the authority' })).toEqual(infoWith({ cluster: want }))
    })

    it('finds it beside the kubeconfig, with its arguments and variables', async () => {
      const script = `#!/bin/sh\necho '{"status":{"token":"'"$1-$2-$WHO"'"}}'\n`
      const user = pluginUser('args: [a, "b c"]\n      env: [{ name: WHO, value: me }]')
      const { credentials } = await withPlugin(script, kubeconfig(user))
      expect(credentials.headers).toEqual(['authorization', 'Bearer a-b c-me'])
    })

    it('does not let it wait for input', async () => {
      const { credentials } = await withPlugin(`#!/bin/sh\ncat\necho '${TOKEN}'\n`)
      expect(credentials.headers).toEqual(['authorization', 'Bearer t'])
    })

    it('takes a certificate with its key', async () => {
      const status = { clientCertificateData: 'cert', clientKeyData: 'key' }
      const { credentials } = await withPlugin(`#!/bin/sh\necho '${JSON.stringify({ status })}'\n`)
      expect([pem(credentials.tls.cert), pem(credentials.tls.key), credentials.headers]).toEqual([
        'cert',
        'key',
        [],
      ])
    })

    const answers = [
      {
        given: 'no status',
        script: `echo '{"kind":"ExecCredential"}'`,
        want: 'no ExecCredential with a status',
      },
      { given: 'an empty status', script: `echo '{"status":{}}'`, want: 'no token and no certificate' },
      {
        given: 'a certificate without its key',
        script: `echo '{"status":{"clientCertificateData":"c"}}'`,
        want: 'only a certificate or only a key',
      },
      { given: 'no JSON', script: 'echo token', want: 'plugin failed: ' },
      { given: 'an error', script: 'echo log in first >&2; exit 1', want: 'plugin failed: log in first' },
    ]
    it.each(answers)('says which plugin failed with $given', async ({ script, want }) => {
      const failed = withPlugin(`#!/bin/sh\n${script}\n`)
      await expect(failed).rejects.toThrow(want)
      await expect(failed).rejects.toThrow(/the exec plugin \/.*\/plugin /)
    })

    it('says how to install a plugin that is not there', async () => {
      const user = pluginUser('installHint: get it at https://example.com', 'no-such-plugin')
      const failed = withPlugin('', kubeconfig(user))
      await expect(failed).rejects.toThrow(/the exec plugin no-such-plugin failed: .*not found/s)
      await expect(failed).rejects.toThrow('get it at https://example.com')
    })

    it.each([
      ['that needs a terminal', pluginUser().replace('IfAvailable', 'Always'), 'requires a terminal'],
      ['of a version that ended', pluginUser().replace('k8s.io/v1', 'k8s.io/v1alpha1'), 'API versions'],
      ['without a command', pluginUser('', '""'), 'has no command'],
    ])('refuses one %s', async (_, user, want) => {
      await expect(withPlugin(NOTES, kubeconfig(user))).rejects.toThrow(want)
    })
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
