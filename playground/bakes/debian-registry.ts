/** Debian's docker-registry as a process of its own. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { freePort } from '../free-port.ts'

export type DebianRegistryOptions = {
  /** Where its files are, which go with it. Absent: a temporary folder. */
  folder?: string
  /** Absent: a free one. */
  port?: number
  /** Absent: plain http. PEM. */
  tls?: { key: string; cert: string }
  auth?:
    | { kind: 'basic'; users: Readonly<Record<string, string>> }
    /** Tokens of a service of ours, signed by what `ca` (PEM) has issued. */
    | { kind: 'token'; realm: string; service: string; issuer: string; ca: string }
}

export type DebianRegistry = {
  port: number
  /** What it writes, for when something fails. */
  said(): string
  stop(): Promise<void>
}

const MAX_SAID = 200_000
const START_LIMIT_MS = 30_000
const LOOK_EVERY_MS = 20

export async function startDebianRegistry(options: DebianRegistryOptions = {}): Promise<DebianRegistry> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'davit-registry-'))
  const port = options.port ?? (await freePort())
  const config = join(folder, 'config.yml')
  mkdirSync(folder, { recursive: true })
  writeFileSync(config, stringify(configOf(options, folder, port)), { mode: 0o600 })
  // Ends with this process, however that ends; a Ctrl-C is not for it.
  const command = ['--pdeathsig', 'KILL', 'docker-registry', 'serve', config]
  const child = spawn('setpriv', command, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let said = ''
  child.on('error', (error) => {
    said += error.message
  })
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
      auth: { htpasswd: { realm: 'davit', path: write('htpasswd', htpasswd(auth.users)) } },
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

/** The lowest cost that there is: these passwords guard nothing. */
function htpasswd(users: Readonly<Record<string, string>>): string {
  return Object.entries(users)
    .map(([name, password]) =>
      execFileSync('htpasswd', ['-niB', '-C', '4', name], { input: password, encoding: 'utf8' }).trim(),
    )
    .join('\n')
}

async function untilListening(child: ChildProcess, port: number, secure: boolean, said: () => string) {
  const deadline = performance.now() + START_LIMIT_MS
  while (performance.now() < deadline) {
    if (!isRunning(child)) throw new Error(`docker-registry has ended: ${said()}`)
    // Over TLS it refuses a plain request with 400, which says as much.
    const answer = await fetch(`http://127.0.0.1:${port}/v2/`).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer || (secure && said().includes('listening on'))) return
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
  throw new Error(`docker-registry does not listen: ${said()}`)
}

/** One that could not be started has no pid, and never tells an exit. */
function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}
