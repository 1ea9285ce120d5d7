import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node'
import type { Clock } from '../lib/clock.ts'
import { within } from '../lib/sleep.ts'

/** How to reach one API server: its address, whom to trust, and who we are. */

/** PEM, as Node's TLS takes it. */
export type TlsMaterial = {
  ca?: string | Buffer
  cert?: string | Buffer
  key?: string | Buffer
  /** The name that the certificate is checked against, where it is not the server's host. */
  servername?: string
  /** Only ever false, where a kubeconfig says `insecure-skip-tls-verify`. */
  rejectUnauthorized?: boolean
}

export type Credentials = {
  /** Request headers as name, value, name, value: `authorization` and whatever impersonates. */
  headers: readonly string[]
  tls: TlsMaterial
}

/** Credentials that change while the process runs. */
export interface CredentialSource {
  /**
   * What to use now; a promise only while new ones are fetched because the old ones were refused. As long as the
   * TLS material is the same, `tls` is the same object: connections belong to it.
   */
  current(): Credentials | Promise<Credentials>
  /** The server answered 401 to `used`: `current` fetches anew. */
  refused(used: Credentials): void
}

export type ClusterAccess = {
  /** `https://host:port`, without a path. */
  origin: string
  /** What comes before `/api`: empty, or the path of a proxy such as Rancher's, without a slash at its end. */
  basePath: string
  credentials: CredentialSource
}

/** @throws Error when `server` is no http(s) URL */
function splitServer(server: string): { origin: string; basePath: string } {
  const url = new URL(server)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new Error(`the API server's address must start with https:// or http://, not ${url.protocol}//`)
  }
  return { origin: url.origin, basePath: url.pathname.replace(/\/+$/, '') }
}

export function sameCredentials(a: Credentials, b: Credentials): boolean {
  return (
    a.headers.length === b.headers.length &&
    a.headers.every((part, index) => part === b.headers[index]) &&
    sameTls(a.tls, b.tls)
  )
}

function sameTls(a: TlsMaterial, b: TlsMaterial): boolean {
  return (
    samePem(a.ca, b.ca) &&
    samePem(a.cert, b.cert) &&
    samePem(a.key, b.key) &&
    a.servername === b.servername &&
    a.rejectUnauthorized === b.rejectUnauthorized
  )
}

function samePem(a: string | Buffer | undefined, b: string | Buffer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return a === b || Buffer.from(a).equals(Buffer.from(b))
}

export type RenewalOptions = {
  first: Credentials
  /** Fetches again. `refused`: the server answered 401, so nothing that is cached may be given back. */
  load(refused: boolean): Promise<Credentials>
  /** Looks for new ones so often in the background; absent: only when the server refused. */
  everyMs?: number
  clock: Clock
}

/** A server that goes on refusing must not make each call run a plugin or read a file. */
const REFUSED_AGAIN_MS = 5_000
/** An exec plugin that hangs. */
const LOAD_LIMIT_MS = 30_000

/** Credentials that are looked up again in the background, and at once when the server refused them. */
export class RefreshingCredentials implements CredentialSource {
  readonly #options: RenewalOptions
  #held: Credentials
  #lookedAt: number
  #refusedAt = Number.NEGATIVE_INFINITY
  #refused = false
  #loading: { refused: boolean; done: Promise<Credentials> } | undefined

  constructor(options: RenewalOptions) {
    this.#options = options
    this.#held = options.first
    this.#lookedAt = options.clock.monotonic()
  }

  current(): Credentials | Promise<Credentials> {
    // A look that began before the refusal may bring what was refused.
    if (this.#refused) return this.#loading?.refused ? this.#loading.done : this.#load()
    const { everyMs, clock } = this.#options
    if (everyMs !== undefined && !this.#loading && clock.monotonic() - this.#lookedAt >= everyMs) {
      void this.#load()
    }
    return this.#held
  }

  refused(used: Credentials): void {
    const now = this.#options.clock.monotonic()
    if (used !== this.#held || now - this.#refusedAt < REFUSED_AGAIN_MS) return
    this.#refusedAt = now
    this.#refused = true
  }

  /** Never rejects: what cannot be fetched leaves the old ones in use, and the server's 401 tells. */
  #load(): Promise<Credentials> {
    const { load, clock } = this.#options
    const refused = this.#refused
    const done = within(clock, LOAD_LIMIT_MS, load(refused), () => new Error('no credentials in time'))
      .catch(() => undefined)
      .then((next) => {
        if (this.#loading !== loading) return this.#held
        this.#loading = undefined
        this.#lookedAt = clock.monotonic()
        if (refused) this.#refused = false
        if (next) this.#take(next)
        return this.#held
      })
    const loading = { refused, done }
    this.#loading = loading
    return done
  }

  #take(next: Credentials): void {
    if (sameCredentials(this.#held, next)) return
    // The same object for the same TLS material: the transport keeps its connections by identity.
    this.#held = sameTls(this.#held.tls, next.tls) ? { ...next, tls: this.#held.tls } : next
  }
}

export type InClusterOptions = {
  /** `https://host:port`; the default is the name that every cluster's certificate and DNS carry. */
  server?: string
  /** Where the kubelet mounts `token` and `ca.crt`. */
  folder?: string
  clock: Clock
}

const SERVER = 'https://kubernetes.default.svc'
const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
/** The kubelet writes a new token after 80 % of the old one's life, which is ten minutes at least. */
const TOKEN_FILE_EVERY_MS = 60_000

/** Access of a pod by its service account. @throws Error when the files are not there */
export async function inClusterAccess(options: InClusterOptions): Promise<ClusterAccess> {
  const folder = options.folder ?? FOLDER
  const load = () => readAccount(folder)
  const credentials = new RefreshingCredentials({
    first: await load().catch(notInCluster),
    load,
    everyMs: TOKEN_FILE_EVERY_MS,
    clock: options.clock,
  })
  return { ...splitServer(options.server ?? SERVER), credentials }
}

function notInCluster(error: Error): never {
  const message = `KUBECONFIG is not set, and this is no pod with a service account: ${error.message}`
  throw new Error(message, { cause: error })
}

async function readAccount(folder: string): Promise<Credentials> {
  const [ca, headers] = await Promise.all([
    readFile(path.join(folder, 'ca.crt')),
    bearer(path.join(folder, 'token')),
  ])
  return { headers, tls: { ca } }
}

/** The header for the token in a file. @throws Error when there is none */
async function bearer(file: string): Promise<string[]> {
  const token = (await readFile(file, 'utf8')).trim()
  if (token === '') throw new Error(`the token file ${file} is empty`)
  return ['authorization', `Bearer ${token}`]
}

export type LoadClusterOptions = {
  /** Absent, or with `inCluster`: the service account of the pod. */
  kubeconfigPath?: string
  inCluster?: boolean
  /** In a cluster: the API server's address where its DNS name does not resolve. */
  server?: string
  clock: Clock
}

/** client-node runs an exec plugin again once its credential has expired; asking it in between costs nothing. */
const EXEC_EVERY_MS = 10_000

/** @throws Error in words for people when there is no way to a cluster */
export async function loadCluster(options: LoadClusterOptions): Promise<ClusterAccess> {
  const { kubeconfigPath, clock } = options
  if (options.inCluster === true || kubeconfigPath === undefined) {
    return inClusterAccess({ clock, ...(options.server === undefined ? {} : { server: options.server }) })
  }
  let kubeconfig = await readKubeconfig(kubeconfigPath)
  const everyMs = renewalOf(kubeconfig)
  const credentials = new RefreshingCredentials({
    first: await credentialsOf(kubeconfig),
    load: async (refused) => {
      // A fresh reading forgets what an exec plugin said before.
      if (refused) kubeconfig = await readKubeconfig(kubeconfigPath)
      return credentialsOf(kubeconfig)
    },
    ...(everyMs === undefined ? {} : { everyMs }),
    clock,
  })
  return { ...splitServer(kubeconfig.cluster.server), credentials }
}

type Kubeconfig = { config: KubeConfig; cluster: Cluster; user: User; tokenFile: string | undefined }

async function readKubeconfig(file: string): Promise<Kubeconfig> {
  // Loaded only here: the library takes 279 ms and 90 MB, which a pod with a service account need not pay.
  const { KubeConfig: Config } = await import('@kubernetes/client-node')
  const text = await readFile(file, 'utf8').catch((cause: Error) => {
    throw new Error(`the kubeconfig (KUBECONFIG) cannot be read: ${cause.message}`, { cause })
  })
  const folder = path.dirname(path.resolve(file))
  const config = new Config()
  config.loadFromString(text)
  config.makePathsAbsolute(folder)
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()]
  if (!cluster) throw new Error(`${file} has no current context, or one without a cluster`)
  if (!user) throw new Error(`${file} has no user for its current context`)
  if (cluster.proxyUrl) throw new Error(`${file}: proxy-url is not supported`)
  tellPluginItsProtocol(user)
  const renamed = new Config()
  renamed.loadFromString(withTokenFileAsPassword(text))
  const tokenFile = namesTokenFile(text) ? renamed.getCurrentUser()?.password : undefined
  return {
    config,
    cluster,
    user,
    tokenFile: tokenFile === undefined || tokenFile === '' ? undefined : path.resolve(folder, tokenFile),
  }
}

/**
 * client-node forgets `tokenFile` (and there is no second YAML parser here), but keeps `password`, which no
 * API server has known since 1.19. So the path is read under that name.
 */
const TOKEN_FILE_KEY = /(^|[\s{,])(["']?)tokenFile\2(?=\s*:)/gm

function namesTokenFile(text: string): boolean {
  return text.search(TOKEN_FILE_KEY) !== -1
}

function withTokenFileAsPassword(text: string): string {
  return text.replace(TOKEN_FILE_KEY, '$1$2password$2')
}

/** Some plugins (GKE's among them) refuse to run without knowing which version of their protocol is spoken. */
function tellPluginItsProtocol(user: User): void {
  const exec = user.exec
  if (!exec) return
  const info = { kind: 'ExecCredential', apiVersion: exec.apiVersion, spec: { interactive: false } }
  exec.env = [...(exec.env ?? []), { name: 'KUBERNETES_EXEC_INFO', value: JSON.stringify(info) }]
}

function renewalOf({ user, tokenFile }: Kubeconfig): number | undefined {
  if (user.exec || user.authProvider) return EXEC_EVERY_MS
  return tokenFile || user.certFile ? TOKEN_FILE_EVERY_MS : undefined
}

async function credentialsOf({ config, cluster, tokenFile }: Kubeconfig): Promise<Credentials> {
  const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = { headers: {} }
  await config.applyToHTTPSOptions(options)
  const { ca, cert, key } = options
  const tls: TlsMaterial = {
    ...(isPem(ca) ? { ca } : {}),
    ...(isPem(cert) ? { cert } : {}),
    ...(isPem(key) ? { key } : {}),
    ...(cluster.tlsServerName ? { servername: cluster.tlsServerName } : {}),
    ...(cluster.skipTLSVerify ? { rejectUnauthorized: false } : {}),
  }
  const headers = Object.entries(options.headers ?? {}).flatMap(([name, value]) => [
    name.toLowerCase(),
    String(value),
  ])
  if (tokenFile === undefined) return { headers, tls }
  const others = headers.filter((_, index) => headers[index - (index % 2)] !== 'authorization')
  return { headers: [...others, ...(await bearer(tokenFile))], tls }
}

function isPem(value: unknown): value is string | Buffer {
  return typeof value === 'string' || Buffer.isBuffer(value)
}
