import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { type ControlPlaneBinaries, findControlPlaneBinaries } from './binaries.ts'
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

/** An audit log of the API server's, one JSON line a request. */
type AuditLog = {
  logPath: string
  /** What is kept of a request; bodies where it is not Metadata. Ignored beside `policyPath`. */
  level?: 'Metadata' | 'Request' | 'RequestResponse'
  /** A policy of the caller's own. */
  policyPath?: string
}

/** Where bodies would put secrets and bearer tokens into the log in clear. */
const NEVER_BODIES = [
  { group: '', resources: ['secrets', 'serviceaccounts/token'] },
  { group: 'authentication.k8s.io', resources: ['tokenreviews'] },
]

/** The API server's flags for it; writes the policy into `workDir` where the caller has none. */
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

/** A call of etcd by its JSON gateway. @param unless words of a refusal that is none */
async function callEtcd(url: string, body: object, unless?: string): Promise<unknown> {
  const signal = AbortSignal.timeout(CALL_LIMIT_MS)
  const response = await fetch(url, { method: 'POST', body: JSON.stringify(body), signal })
  const text = await response.text()
  const isFine = response.ok || (unless !== undefined && text.includes(unless))
  if (!isFine) throw new Error(`etcd answered ${response.status} to POST ${url}: ${text.slice(0, 500)}`)
  return JSON.parse(text)
}

/**
 * Raises or ends the alarm that etcd gives itself when its disk or its quota is full: as long as it stands, etcd answers reads and
 * deletes, and refuses every other write.
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

/** Somebody else has compacted it, such as the API server: what is wanted is so. */
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
  // Physical: answered when what it removes is gone from the disk as well.
  await callEtcd(`${etcdUrl}/v3/kv/compaction`, { revision, physical: true }, COMPACTED)
  return Number(revision)
}

const PROGRAM = fileURLToPath(new URL('./control-plane-process.ts', import.meta.url))

/** A little longer than the helper gives itself. */
const END_LIMIT_MS = 20_000

/** The control plane did not start, or ended before it was asked to. */
export class ControlPlaneFailed extends Error {
  override readonly name = 'ControlPlaneFailed'
}

type HelperStart = HelperSettings & {
  /** Environment of helper, etcd and API server, all of it. */
  env: Record<string, string>
  /** File descriptor for what the servers print. */
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
    // Detached is a process group of its own: a Ctrl-C is for the owner, which stops the helper when it is done.
    const child = spawn(process.execPath, [PROGRAM], {
      detached: true,
      env,
      stdio: ['pipe', 'pipe', stderr],
    })
    this.process = child
    this.stdin = child.stdin as Writable
    this.started = this.start.promise
    this.exited = once(child, 'exit').then(() => this.afterExit(settings))
    // Writing to a helper that has just ended; its exit is what is reported.
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
      return Promise.reject(new ControlPlaneFailed('the control plane has ended'))
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

  /** A helper that was killed leaves its children, which are in its group, and its files. */
  private async afterExit({ workDir, removeWorkDir }: HelperSettings): Promise<void> {
    this.killGroup()
    const ended = new ControlPlaneFailed('the control plane has ended')
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
  /** Absent: looked for, downloaded or built. */
  binaries?: ControlPlaneBinaries
  /** Whether etcd waits for the disk, as a real one does. Absent: no, which suits everything but measurements. */
  fsync?: boolean
  /** GOGC of etcd and API server, in percent. Absent: Go's own 100. */
  gogc?: number
  audit?: AuditLog
  /** New or empty folder for all of its files, which stay. Absent: a temporary one, removed at the end. */
  dataDir?: string
  /** Where the servers' output is appended. Absent: only a failed start shows it. */
  logPath?: string
  etcdFlags?: ServerFlags
  apiServerFlags?: ServerFlags
}

export type ControlPlane = {
  /** For whoever may do everything; 0600. */
  kubeconfigPath: string
  /** The API server, `https://127.0.0.1:<port>`. */
  url: string
  /** The same certificate of an administrator as in the kubeconfig, in PEM. */
  access: AdminAccess
  /** Client address of etcd, plain and open to everybody on this machine. */
  etcdUrl: string
  binaries: ControlPlaneBinaries
  readonly pids: ControlPlanePids
  /** Settles when all of its processes are gone, for whatever reason. */
  exited: Promise<void>
  /** Stops everything; returns when nothing is left. May be called again. */
  stop(): Promise<void>
  /** Makes etcd forget all but the present; returns the revision. A watch from before then ends with Gone. */
  compactEtcd(): Promise<number>
  /** Stops the API server alone and returns when it is gone. */
  stopApiServer(): Promise<void>
  /** Starts it again under the same address, after `stopApiServer`, a kill, or in place of a living one. */
  startApiServer(): Promise<void>
  /** Kills etcd alone and returns when it is gone. */
  killEtcd(): Promise<void>
  /** Starts it again with its data, under the same address. */
  startEtcd(): Promise<void>
  /** Whether etcd has the alarm of a full disk, under which it refuses writes. */
  setNoSpace(isFull: boolean): Promise<void>
}

/**
 * A real API server and etcd on loopback, with the defaults of a stock cluster but for what envtest changes
 * (no ServiceAccount admission; no controllers: nothing is garbage-collected and no namespace ends). They stop
 * when this process ends, however it ends. Up in three to four seconds once the binaries are there.
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

/** Only what programs need to run: etcd takes every ETCD_ variable for a setting, and Go reads more. */
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
