import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node'
import { fieldOf } from '../lib/json.ts'
import { type Clock, within } from '../lib/time.ts'
import { preparePlugin, withPlugin } from './exec-plugin.ts'

/** How to reach an API server: its address, the CA to trust, and credentials that renew themselves. */

/** PEM, as Node's TLS takes it. */
export type TlsMaterial = {
  ca?: string | Buffer
  cert?: string | Buffer
  key?: string | Buffer
  /** The name to check the certificate against, if not the host. */
  servername?: string
  /** Only ever false, for `insecure-skip-tls-verify`. */
  rejectUnauthorized?: boolean
}

export type Credentials = {
  /** Headers as name, value, name, value: `authorization` and impersonation. */
  headers: readonly string[]
  tls: TlsMaterial
}

export interface CredentialSource {
  /**
   * The current credentials; a promise only while new ones are fetched after a 401. As long as the TLS material is
   * unchanged, `tls` is the same object, because connections belong to it.
   */
  current(): Credentials | Promise<Credentials>
  /** The server answered 401: `current` fetches new ones. */
  refused(used: Credentials): void
}

export type ClusterAccess = {
  origin: string
  /** The path before `/api`: empty, or that of a proxy such as Rancher's, without a trailing slash. */
  basePath: string
  credentials: CredentialSource
}

/** @throws Error if `server` is not an http(s) URL */
function splitServer(server: string): { origin: string; basePath: string } {
  const url = new URL(server)
  if (url.protocol !== 'https:' && url.protocol !== 'http:') {
    throw new Error(
      `the address of the API server must start with https:// or http://, not ${url.protocol}//`,
    )
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
  /** `refused`: the server answered 401, so cached credentials must not be returned. */
  load(refused: boolean): Promise<Credentials>
  /** How often to reload in the background. Absent: only after a 401. */
  everyMs?: number | undefined
  clock: Clock
}

/** A server that keeps answering 401 must not make each call run a plugin or read a file. */
const REFUSED_AGAIN_MS = 5_000
/** An exec plugin may hang. */
const LOAD_LIMIT_MS = 30_000

/** Credentials that are reloaded in the background, and at once after a 401. */
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
    // A load that started before the 401 may return the rejected credentials.
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

  /** Never rejects: if loading fails, the old credentials stay, and the server answers 401. */
  #load(): Promise<Credentials> {
    const { load, clock } = this.#options
    const refused = this.#refused
    const done = within(
      clock,
      LOAD_LIMIT_MS,
      load(refused),
      () => new Error('timed out while loading credentials'),
    )
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
    // Keep the identity of unchanged TLS material: connections are kept by it.
    this.#held = sameTls(this.#held.tls, next.tls) ? { ...next, tls: this.#held.tls } : next
  }
}

/** The DNS name of the API server in every cluster. */
const SERVER = 'https://kubernetes.default.svc'
/** Where the kubelet mounts `token` and `ca.crt`. */
const FOLDER = '/var/run/secrets/kubernetes.io/serviceaccount'
/** The kubelet renews a token after 80 % of its life, which is at least ten minutes. */
const TOKEN_FILE_EVERY_MS = 60_000

/** A pod's access by its service account. @throws Error if the files are missing */
export async function inClusterAccess(clock: Clock, folder = FOLDER): Promise<ClusterAccess> {
  const load = () => readAccount(folder)
  const credentials = new RefreshingCredentials({
    first: await load().catch(notInCluster),
    load,
    everyMs: TOKEN_FILE_EVERY_MS,
    clock,
  })
  return { ...splitServer(SERVER), credentials }
}

function notInCluster(error: Error): never {
  const message = `KUBECONFIG is not set, and no ServiceAccount token was found: ${error.message}`
  throw new Error(message, { cause: error })
}

async function readAccount(folder: string): Promise<Credentials> {
  const [ca, headers] = await Promise.all([
    readFile(path.join(folder, 'ca.crt')),
    bearer(path.join(folder, 'token')),
  ])
  return { headers, tls: { ca } }
}

/** The header for the token in a file. @throws Error if it is empty */
async function bearer(file: string): Promise<string[]> {
  const token = (await readFile(file, 'utf8')).trim()
  if (token === '') throw new Error(`the token file ${file} is empty`)
  return ['authorization', `Bearer ${token}`]
}

/** client-node reruns an exec plugin when its credential has expired; asking in between is free. */
const EXEC_EVERY_MS = 10_000

/**
 * @param kubeconfigPath absent: the pod's service account
 * @throws Error with a message for people if there is no access to a cluster
 */
export async function loadCluster(clock: Clock, kubeconfigPath?: string): Promise<ClusterAccess> {
  if (kubeconfigPath === undefined) return inClusterAccess(clock)
  let kubeconfig = await readKubeconfig(kubeconfigPath)
  const credentials = new RefreshingCredentials({
    first: await credentialsOf(kubeconfig),
    load: async (refused) => {
      // Reading again drops what an exec plugin returned before.
      if (refused) kubeconfig = await readKubeconfig(kubeconfigPath)
      return credentialsOf(kubeconfig)
    },
    everyMs: renewalOf(kubeconfig),
    clock,
  })
  return { ...splitServer(kubeconfig.cluster.server), credentials }
}

type Kubeconfig = { config: KubeConfig; cluster: Cluster; user: User; tokenFile: string | undefined }

async function readKubeconfig(file: string): Promise<Kubeconfig> {
  // Imported here only: it costs 279 ms and 90 MB, which a pod with a service account does not need.
  const { KubeConfig: Config } = await import('@kubernetes/client-node')
  const text = await readFile(file, 'utf8').catch((cause: Error) => {
    throw new Error(`failed to read the kubeconfig (KUBECONFIG): ${cause.message}`, { cause })
  })
  const folder = path.dirname(path.resolve(file))
  const config = new Config()
  config.loadFromString(text)
  config.makePathsAbsolute(folder)
  const [cluster, user] = [config.getCurrentCluster(), config.getCurrentUser()]
  if (!cluster) throw new Error(`${file}: the current context is missing or has no cluster`)
  if (!user) throw new Error(`${file}: the current context has no user`)
  if (cluster.proxyUrl) throw new Error(`${file}: proxy-url is not supported`)
  const reloaded = (renamed: string) => {
    const other = new Config()
    other.loadFromString(renamed)
    return other
  }
  const clusterConfig = () =>
    pluginConfig(reloaded(withExtensionsAsProxy(text)).getCurrentCluster()?.proxyUrl)
  await preparePlugin(user, { cluster, folder, clusterConfig })
  const renamed = reloaded(withTokenFileAsPassword(text))
  const tokenFile = namesTokenFile(text) ? renamed.getCurrentUser()?.password : undefined
  return {
    config,
    cluster,
    user,
    tokenFile: tokenFile === undefined || tokenFile === '' ? undefined : path.resolve(folder, tokenFile),
  }
}

/**
 * client-node drops `tokenFile` (and there is no second YAML parser here), but keeps `password`, unused since
 * Kubernetes 1.19. So the path is read under that name.
 */
const TOKEN_FILE_KEY = /(^|[\s{,])(["']?)tokenFile\2(?=\s*:)/gm

function namesTokenFile(text: string): boolean {
  return text.search(TOKEN_FILE_KEY) !== -1
}

function withTokenFileAsPassword(text: string): string {
  return text.replace(TOKEN_FILE_KEY, '$1$2password$2')
}

/** Dropped by client-node like `tokenFile`, and read as `proxy-url`, which this cluster does not have. */
const EXTENSIONS_KEY = /(^|[\s{,])(["']?)extensions\2(?=\s*:)/gm
const PROXY_KEY = /(^|[\s{,])(["']?)proxy-url\2(?=\s*:)/gm

function withExtensionsAsProxy(text: string): string {
  return text.replace(PROXY_KEY, '$1$2of-another$2').replace(EXTENSIONS_KEY, '$1$2proxy-url$2')
}

/** @param extensions of a cluster */
function pluginConfig(extensions: unknown): unknown {
  const named = Array.isArray(extensions) ? extensions : []
  const own = named.find((extension) => fieldOf(extension, 'name') === 'client.authentication.k8s.io/exec')
  return fieldOf(own, 'extension')
}

function renewalOf({ user, tokenFile }: Kubeconfig): number | undefined {
  if (user.exec || user.authProvider) return EXEC_EVERY_MS
  return tokenFile || user.certFile ? TOKEN_FILE_EVERY_MS : undefined
}

async function credentialsOf({ config, cluster, user, tokenFile }: Kubeconfig): Promise<Credentials> {
  const options = await withPlugin(
    user,
    async () => {
      const options: Parameters<KubeConfig['applyToHTTPSOptions']>[0] = { headers: {} }
      await config.applyToHTTPSOptions(options)
      return options
    },
    ({ headers, cert, key }) => ({
      token: fieldOf(headers, 'Authorization') !== undefined,
      certificate: cert !== undefined,
      key: key !== undefined,
    }),
  )
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
