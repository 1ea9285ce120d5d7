/** Runs Debian's docker-registry as a process. */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { stringify } from 'yaml'
import { freePort } from '../free-port.ts'

export type DebianRegistryOptions = {
  /** For its files; removed with it. Absent: a temporary folder. */
  folder?: string
  /** Absent: a free port. */
  port?: number
  /** PEM. Absent: plain HTTP. */
  tls?: { key: string; cert: string }
  auth?:
    | { kind: 'basic'; users: Readonly<Record<string, string>> }
    /** Tokens of the test's own token service, signed with a certificate that `ca` (PEM) has issued. */
    | { kind: 'token'; realm: string; service: string; issuer: string; ca: string }
}

export type DebianRegistry = {
  port: number
  /** Output of the process, for failure messages. */
  output(): string
  stop(): Promise<void>
}

const MAX_OUTPUT = 200_000
const START_LIMIT_MS = 30_000
const LOOK_EVERY_MS = 20

export async function startDebianRegistry(options: DebianRegistryOptions = {}): Promise<DebianRegistry> {
  const folder = options.folder ?? mkdtempSync(join(tmpdir(), 'davit-registry-'))
  const port = options.port ?? (await freePort())
  const config = join(folder, 'config.yml')
  mkdirSync(folder, { recursive: true })
  writeFileSync(config, stringify(configOf(options, folder, port)), { mode: 0o600 })
  // The registry ends with this process, however that ends; it ignores Ctrl-C.
  const command = ['--pdeathsig', 'KILL', 'docker-registry', 'serve', config]
  const child = spawn('setpriv', command, { detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  let output = ''
  child.on('error', (error) => {
    output += error.message
  })
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-MAX_OUTPUT)
    })
  const stop = async () => {
    if (isRunning(child)) {
      child.kill('SIGKILL')
      await once(child, 'exit')
    }
    rmSync(folder, { recursive: true, force: true })
  }
  try {
    await untilListening(child, port, options.tls !== undefined, () => output)
  } catch (error) {
    await stop()
    throw error
  }
  return { port, output: () => output, stop }
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
      // Behind a front on another port, absolute addresses would bypass the front.
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

/** Uses the lowest possible cost: these passwords protect nothing. */
function htpasswd(users: Readonly<Record<string, string>>): string {
  return Object.entries(users)
    .map(([name, password]) =>
      execFileSync('htpasswd', ['-niB', '-C', '4', name], { input: password, encoding: 'utf8' }).trim(),
    )
    .join('\n')
}

async function untilListening(child: ChildProcess, port: number, secure: boolean, output: () => string) {
  const deadline = performance.now() + START_LIMIT_MS
  while (performance.now() < deadline) {
    if (!isRunning(child)) throw new Error(`docker-registry exited: ${output()}`)
    // With TLS, the registry answers a plain request with 400, which also proves that it listens.
    const answer = await fetch(`http://127.0.0.1:${port}/v2/`).catch(() => undefined)
    await answer?.body?.cancel()
    if (answer || (secure && output().includes('listening on'))) return
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS))
  }
  throw new Error(`docker-registry did not start to listen: ${output()}`)
}

/** A process that failed to start has no pid and never emits an exit. */
function isRunning(child: ChildProcess): boolean {
  return child.pid !== undefined && child.exitCode === null && child.signalCode === null
}
