/** Debian's docker-registry as a process of its own. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { freePort } from '../../chaos/free-port.ts'
import type { Certificate } from '../tls.ts'
import { until } from '../until.ts'

export type DebianRegistryOptions = {
  /** Absent: plain http. */
  tls?: Certificate
  auth?:
    | { kind: 'basic'; users: Readonly<Record<string, string>> }
    /** Tokens of a service of ours, signed by what `ca` (PEM) has issued. */
    | { kind: 'token'; realm: string; service: string; issuer: string; ca: string }
}

export type DebianRegistry = {
  port: number
  /** What it writes, for tests that fail. */
  said(): string
  stop(): Promise<void>
}

const MAX_SAID = 200_000

export async function startDebianRegistry(options: DebianRegistryOptions = {}): Promise<DebianRegistry> {
  const folder = mkdtempSync(join(tmpdir(), 'davit-registry-'))
  const port = await freePort()
  const config = join(folder, 'config.yml')
  writeFileSync(config, stringify(configOf(options, folder, port)), { mode: 0o600 })
  // Ends with the tests, however those end.
  const command = ['--pdeathsig', 'KILL', 'docker-registry', 'serve', config]
  const child = spawn('setpriv', command, { stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      said = (said + text).slice(-MAX_SAID)
    })
  const stop = async () => {
    if (isRunning(child)) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await untilListening(child, port, options.tls !== undefined, () => said)
  } catch (error) {
    await stop()
    throw error
  }
  return { port, said: () => said, stop }
}

function configOf({ tls, auth }: DebianRegistryOptions, folder: string, port: number): unknown {
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text, { mode: 0o600 })
    return join(folder, name)
  }
  const storage = join(folder, 'storage')
  mkdirSync(storage)
  return {
    version: 0.1,
    log: { level: 'info', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: storage }, delete: { enabled: true } },
    http: {
      addr: `127.0.0.1:${port}`,
      // Behind a front of another port, absolute addresses would lead past it.
      relativeurls: true,
      ...(tls && { tls: { certificate: write('cert.pem', tls.cert), key: write('key.pem', tls.key) } }),
    },
    ...(auth?.kind === 'basic' && {
      auth: { htpasswd: { realm: 'tests', path: write('htpasswd', htpasswd(auth.users)) } },
    }),
    ...(auth?.kind === 'token' && {
      auth: {
        token: {
          realm: auth.realm,
          service: auth.service,
          issuer: auth.issuer,
          rootcertbundle: write('token-ca.pem', auth.ca),
        },
      },
    }),
  }
}

/** The lowest cost that there is: what is tested is not how slow it is. */
function htpasswd(users: Readonly<Record<string, string>>): string {
  return Object.entries(users)
    .map(([name, password]) =>
      execFileSync('htpasswd', ['-niB', '-C', '4', name], { input: password, encoding: 'utf8' }).trim(),
    )
    .join('\n')
}

async function untilListening(child: ChildProcess, port: number, secure: boolean, said: () => string) {
  await until(
    async () => {
      if (!isRunning(child)) throw new Error(`docker-registry has ended: ${said()}`)
      // Over TLS it refuses a plain request with 400, which says as much.
      const answer = await fetch(`http://127.0.0.1:${port}/v2/`).catch(() => undefined)
      await answer?.body?.cancel()
      return answer || (secure && said().includes('listening on')) ? true : undefined
    },
    () => `docker-registry does not listen: ${said()}`,
  )
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}
