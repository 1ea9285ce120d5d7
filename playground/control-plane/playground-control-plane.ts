import { chmod, mkdir, mkdtemp, open, readdir } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type ControlPlaneBinaries, findControlPlaneBinaries } from './binaries.ts'
import { ControlPlaneFailed, ControlPlaneHelper, type HelperStart } from './control-plane.ts'
import { setNoSpace } from './control-plane-alarm.ts'
import { type AuditLog, auditFlags } from './control-plane-audit.ts'
import { compactEtcd } from './control-plane-compaction.ts'
import type { AdminAccess, ControlPlanePids, ServerFlags } from './protocol.ts'

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
