import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Cluster, KubeConfig, User } from '@kubernetes/client-node'
import type { Clock } from '../lib/ports-clock.ts'
import { type ClusterAccess, type Credentials, splitServer, type TlsMaterial } from './cluster-access.ts'
import { bearer, inClusterAccess, TOKEN_FILE_EVERY_MS } from './in-cluster.ts'
import { RefreshingCredentials } from './renewed-credentials.ts'

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
