import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { findControlPlaneBinaries } from './binaries.ts'
import type { ControlPlaneBinaries } from './find-binaries.mjs'
import type {
  AdminAccess,
  ControlPlanePids,
  HelperAction,
  HelperMessage,
  HelperRequest,
  HelperSettings,
  ServerFlags,
  StartedControlPlane,
} from './protocol.ts'

/** An audit log of the API server, with one JSON line per request. */
type AuditLog = {
  logPath: string
  /** What is kept of a request; bodies unless it is Metadata. Ignored if `policyPath` is given. */
  level?: 'Metadata' | 'Request' | 'RequestResponse'
  /** A policy of the caller. */
  policyPath?: string
}

/** Requests whose bodies would put secrets and bearer tokens into the log in clear text. */
const NEVER_BODIES = [
  { group: '', resources: ['secrets', 'serviceaccounts/token'] },
  { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
]

/** The audit flags of the API server; writes the policy into `workDir` if the caller has none. */
async function auditFlags(audit: AuditLog, workDir: string): Promise<Record<string, string>> {
  const policyPath = audit.policyPath ?? join(workDir, 'audit-policy.json')
  if (audit.policyPath === undefined) {
    await writeFile(policyPath, JSON.stringify(policyOf(audit.level ?? 'Metadata')))
  }
  return { 'audit-log-path': audit.logPath, 'audit-policy-file': policyPath }
}

function policyOf(level: string): object {
  return {
    apiVersion: 'audit.k8s.io/v1',
    kind: 'Policy',
    omitStages: ['RequestReceived'],
    rules: [{ level: 'Metadata', resources: NEVER_BODIES }, { level }],
  }
}

const CALL_LIMIT_MS = 30_000

/** Calls etcd through its JSON gateway. @param unless text of an error that counts as success */
async function callEtcd(url: string, body: object, unless?: string): Promise<unknown> {
  const signal = AbortSignal.timeout(CALL_LIMIT_MS)
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal })
  const text = await response.text()
  const isFine = response.ok || (unless !== undefined && text.includes(unless))
  if (!isFine) throw new Error(`etcd answered ${response.status} to POST ${url}: ${text.slice(0, 500)}`)
  return JSON.parse(text)
}

/**
 * Raises or ends the alarm that etcd raises when its disk or its quota is full: while it is raised, etcd answers reads and
 * deletes, and rejects every other write.
 *
 * @param etcdUrl client address
 */
async function setNoSpace(etcdUrl: string, isFull: boolean): Promise<void> {
  const status = (await callEtcd(`${etcdUrl}/v3/maintenance/status`, {})) as { header: { member_id: string } }
  await callEtcd(`${etcdUrl}/v3/maintenance/alarm`, {
    action: isFull ? 'ACTIVATE' : 'DEACTIVATE',
    memberID: status.header.member_id,
    alarm: 'NOSPACE',
  })
}

/** Another client, such as the API server, has already compacted it. */
const COMPACTED = 'required revision has been compacted'

/**
 * Compacts etcd at its newest revision, as an API server does every five minutes to versions that old.
 *
 * @param etcdUrl client address
 * @returns the revision
 */
export async function compactEtcd(etcdUrl: string): Promise<number> {
  const status = (await callEtcd(`${etcdUrl}/v3/maintenance/status`, {})) as { header: { revision: string } }
  const revision = status.header.revision
  // Physical: the answer waits until the removed data is gone from the disk as well.
  await callEtcd(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true }, COMPACTED)
  return Number(revision)
}

const PROGRAM = fileURLToPath(new URL('./control-plane-process.ts', import.meta.url))

/** A little longer than the helper's own limit. */
const END_LIMIT_MS = 20_000

/** The control plane did not start, or ended unexpectedly. */
export class ControlPlaneFailed extends Error {
  override readonly name = 'ControlPlaneFailed'
}

type HelperStart = HelperSettings & {
  /** The complete environment of helper, etcd and API server. */
  env: Record<string, string>
  /** File descriptor for the output of the servers. */
  stderr: number | 'inherit'
}

/** The owner's end of the helper process. */
class ControlPlaneHelper {
  readonly started: Promise<StartedControlPlane>
  /** Settles when helper, etcd and API server are gone, for whatever reason. */
  readonly exited: Promise<void>
  private readonly process: ChildProcess
  private readonly stdin: Writable
  private readonly waiting = new Map<number, PromiseWithResolvers<void>>()
  private readonly start = Promise.withResolvers<StartedControlPlane>()
  private lastPids: ControlPlanePids | undefined
  private lastId = 0

  constructor({ env, stderr, ...settings }: HelperStart) {
    // Detached gives it its own process group: a Ctrl-C reaches only the owner, which stops the helper when it is done.
    const child = spawn(process.execPath, [PROGRAM], {
      detached: true,
      env,
      stdio: ['pipe', 'pipe', stderr],
    })
    this.process = child
    this.stdin = child.stdin as Writable
    this.started = this.start.promise
    this.exited = once(child, 'exit').then(() => this.afterExit(settings))
    // The helper may just have ended; its exit is reported instead.
    this.stdin.on('error', () => {})
    createInterface({ input: child.stdout as NodeJS.ReadableStream }).on('line', (line) => {
      this.receive(JSON.parse(line) as HelperMessage)
    })
    this.stdin.write(`${JSON.stringify(settings satisfies HelperSettings)}\n`)
  }

  /** @throws ControlPlaneFailed before it has started */
  get pids(): ControlPlanePids {
    if (this.lastPids === undefined) throw new ControlPlaneFailed('the control plane has not started')
    return this.lastPids
  }

  /** @throws ControlPlaneFailed with the server's last output, or when the helper is gone */
  request(action: HelperAction): Promise<void> {
    if (this.process.exitCode !== null || this.process.signalCode !== null) {
      return Promise.reject(new ControlPlaneFailed('the control plane has stopped'))
    }
    const request: HelperRequest = { id: ++this.lastId, action }
    const answer = Promise.withResolvers<void>()
    this.waiting.set(request.id, answer)
    this.stdin.write(`${JSON.stringify(request)}\n`)
    return answer.promise
  }

  /** Returns when nothing is left. May be called more than once. */
  async stop(): Promise<void> {
    this.stdin.end()
    const force = setTimeout(() => this.killGroup(), END_LIMIT_MS)
    await this.exited
    clearTimeout(force)
  }

  private receive(message: HelperMessage): void {
    if ('pids' in message) this.lastPids = message.pids
    switch (message.kind) {
      case 'started':
        this.start.resolve(message.controlPlane)
        break
      case 'failed':
        this.start.reject(new ControlPlaneFailed(message.message))
        break
      case 'done':
        this.take(message.id)?.resolve()
        break
      case 'refused':
        this.take(message.id)?.reject(new ControlPlaneFailed(message.message))
        break
    }
  }

  private take(id: number): PromiseWithResolvers<void> | undefined {
    const answer = this.waiting.get(id)
    this.waiting.delete(id)
    return answer
  }

  /** A killed helper leaves its files and its children, which are in its group. */
  private async afterExit({ workDir, removeWorkDir }: HelperSettings): Promise<void> {
    this.killGroup()
    const ended = new ControlPlaneFailed('the control plane has stopped')
    this.start.reject(ended)
    for (const answer of this.waiting.values()) answer.reject(ended)
    this.waiting.clear()
    if (removeWorkDir) await rm(workDir, { recursive: true, force: true, maxRetries: 5 })
  }

  private killGroup(): void {
    try {
      if (this.process.pid !== undefined) process.kill(-this.process.pid, 'SIGKILL')
    } catch {
      // The group is empty.
    }
  }
}

export type ControlPlaneOptions = {
  /** Absent: they are looked for, downloaded or built. */
  binaries?: ControlPlaneBinaries
  /** Whether etcd waits for the disk, as a real one does. Absent: no, which suits everything except measurements. */
  fsync?: boolean
  /** GOGC of etcd and API server, in percent. Absent: Go's own 100. */
  gogc?: number
  audit?: AuditLog
  /** New or empty folder for all files, which are kept. Absent: a temporary folder that is removed at the end. */
  dataDir?: string
  /** File to which the output of the servers is appended. Absent: only a failed start shows it. */
  logPath?: string
  etcdFlags?: ServerFlags
  apiServerFlags?: ServerFlags
}

export type ControlPlane = {
  /** With the rights of an administrator; mode 0600. */
  kubeconfigPath: string
  /** The API server, `https://127.0.0.1:<port>`. */
  url: string
  /** The administrator certificate of the kubeconfig, in PEM. */
  access: AdminAccess
  /** Client address of etcd, unencrypted and open to every process of this machine. */
  etcdUrl: string
  binaries: ControlPlaneBinaries
  readonly pids: ControlPlanePids
  /** Settles when all processes are gone, for whatever reason. */
  exited: Promise<void>
  /** Stops everything; returns when nothing is left. May be called again. */
  stop(): Promise<void>
  /** Compacts etcd to the present; returns the revision. A watch from an older version then ends with Gone. */
  compactEtcd(): Promise<number>
  /** Stops only the API server; returns when it is gone. */
  stopApiServer(): Promise<void>
  /** Starts the API server again at the same address: after `stopApiServer`, after a kill, or in place of a running one. */
  startApiServer(): Promise<void>
  /** Kills only etcd; returns when it is gone. */
  killEtcd(): Promise<void>
  /** Starts etcd again with its data, at the same address. */
  startEtcd(): Promise<void>
  /** Raises or ends the full-disk alarm of etcd, under which it rejects writes. */
  setNoSpace(isFull: boolean): Promise<void>
}

/**
 * Starts a real API server and etcd on loopback, with the defaults of a stock cluster except for what envtest changes (no
 * ServiceAccount admission; no controllers: nothing is garbage-collected and no namespace ends). They stop when this process
 * ends, however it ends. It takes three to four seconds once the binaries are there.
 *
 * @throws ControlPlaneUnavailable no binaries, and no way to get some
 * @throws ControlPlaneFailed a server did not start; the message has its output
 */
export async function startControlPlane(options: ControlPlaneOptions = {}): Promise<ControlPlane> {
  const binaries = options.binaries ?? (await findControlPlaneBinaries())
  const log = options.logPath === undefined ? undefined : await open(options.logPath, 'a', 0o600)
  const workDir = await makeWorkDir(options.dataDir)
  const helper = new ControlPlaneHelper({
    etcd: binaries.etcd,
    kubeApiserver: binaries.kubeApiserver,
    workDir,
    removeWorkDir: options.dataDir === undefined,
    etcdFlags: { 'unsafe-no-fsync': String(options.fsync !== true), ...options.etcdFlags },
    apiServerFlags: {
      ...(options.audit === undefined ? {} : await auditFlags(options.audit, workDir)),
      ...options.apiServerFlags,
    },
    showOutput: log !== undefined,
    env: serverEnvironment(options.gogc),
    stderr: log?.fd ?? 'inherit',
  } satisfies HelperStart)
  await log?.close()
  const started = await helper.started.catch(async (error: unknown) => {
    await helper.stop()
    throw error
  })
  return {
    ...started,
    url: started.access.server,
    binaries,
    get pids() {
      return helper.pids
    },
    exited: helper.exited,
    stop: () => helper.stop(),
    compactEtcd: () => compactEtcd(started.etcdUrl),
    stopApiServer: () => helper.request('stopApiServer'),
    startApiServer: () => helper.request('startApiServer'),
    killEtcd: () => helper.request('killEtcd'),
    startEtcd: () => helper.request('startEtcd'),
    setNoSpace: (isFull) => setNoSpace(started.etcdUrl, isFull),
  }
}

/** Only variables that programs need to run: etcd reads every ETCD_ variable as a setting, and Go reads more. */
function serverEnvironment(gogc: number | undefined): Record<string, string> {
  const kept = ['PATH', 'HOME', 'TMPDIR', 'TZ'].flatMap((name) => {
    const value = process.env[name]
    return value === undefined ? [] : [[name, value]]
  })
  return { ...Object.fromEntries(kept), ...(gogc === undefined ? {} : { GOGC: String(gogc) }) }
}

async function makeWorkDir(dataDir: string | undefined): Promise<string> {
  if (dataDir === undefined) return mkdtemp(join(tmpdir(), 'davit-control-plane-'))
  await mkdir(dataDir, { recursive: true })
  await chmod(dataDir, 0o700)
  if ((await readdir(dataDir)).length > 0) throw new ControlPlaneFailed(`${dataDir} is not empty`)
  return dataDir
}
