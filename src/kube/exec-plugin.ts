/**
 * Exec plugins of a kubeconfig (kubernetes.io, "client-go credential plugins"; client.authentication.k8s.io/v1). client-node runs them;
 * here is what it leaves out of the protocol: what the plugin is told of the cluster, where its command is, its input, and its answer.
 */
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { Cluster, User } from '@kubernetes/client-node'

/** As in the kubeconfig; nothing has checked it. */
type ExecPlugin = {
  apiVersion?: unknown
  command?: unknown
  args?: unknown
  env?: { name: string; value: string }[] | null
  installHint?: unknown
  interactiveMode?: unknown
  provideClusterInfo?: unknown
}

const VERSIONS: readonly unknown[] = [
  'client.authentication.k8s.io/v1',
  'client.authentication.k8s.io/v1beta1',
]
/** Closes stdin, which client-node leaves open: a plugin that asks a question would wait for ever. */
const WITHOUT_INPUT = ['/bin/sh', '-c', 'exec "$0" "$@" </dev/null'] as const

export type PluginSurroundings = {
  cluster: Cluster
  /** The folder of the kubeconfig. */
  folder: string
  /** What the kubeconfig has for the plugins of this cluster (`extensions`, `client.authentication.k8s.io/exec`). */
  clusterConfig: () => unknown
}

/** Prepares the plugin of a user for client-node. @throws Error if this plugin cannot be used */
export async function preparePlugin(user: User, surroundings: PluginSurroundings): Promise<void> {
  const plugin = user.exec as ExecPlugin | null | undefined
  if (!plugin) return
  const { apiVersion, command, interactiveMode, provideClusterInfo } = plugin
  if (typeof command !== 'string' || command === '') throw new Error('the exec plugin has no command')
  if (!VERSIONS.includes(apiVersion))
    throw new Error(`the exec plugin ${command} must have one of the API versions ${VERSIONS.join(', ')}`)
  if (interactiveMode === 'Always')
    throw new Error(
      `the exec plugin ${command} requires a terminal (interactiveMode: Always), but Davit does not have one`,
    )
  const spec = {
    interactive: false,
    ...(provideClusterInfo === true ? { cluster: await clusterInfo(surroundings) } : {}),
  }
  const info = JSON.stringify({ kind: 'ExecCredential', apiVersion, spec })
  const [shell, ...options] = WITHOUT_INPUT
  plugin.env = [...(plugin.env ?? []), { name: 'KUBERNETES_EXEC_INFO', value: info }]
  plugin.args = [...options, absoluteCommand(command, surroundings.folder), ...argumentsOf(plugin)]
  plugin.command = shell
}

function argumentsOf({ args }: ExecPlugin): string[] {
  return Array.isArray(args) ? args.map(String) : []
}

/** A name is looked up in PATH. A path is relative to the kubeconfig. */
function absoluteCommand(command: string, folder: string): string {
  return command.includes('/') ? path.resolve(folder, command) : command
}

/** The authorities are passed as data, so that the plugin needs no access to the file. */
async function clusterInfo({ cluster, clusterConfig }: PluginSurroundings): Promise<object> {
  const { server, tlsServerName, skipTLSVerify, caData, caFile } = cluster
  const authorities = caData ?? (caFile ? (await readFile(caFile)).toString('base64') : undefined)
  return {
    server,
    'tls-server-name': tlsServerName,
    'insecure-skip-tls-verify': skipTLSVerify || undefined,
    'certificate-authority-data': authorities,
    config: clusterConfig(),
  }
}

type Answer = { token: boolean; certificate: boolean; key: boolean }

/** @throws Error if the plugin failed, or returned nothing that identifies the user */
export async function withPlugin<T>(
  user: User,
  run: () => Promise<T>,
  answerOf: (credentials: T) => Answer,
): Promise<T> {
  const plugin = user.exec as ExecPlugin | null | undefined
  if (!plugin) return await run()
  const name = String((plugin.args as string[])[WITHOUT_INPUT.length - 1])
  const hint = typeof plugin.installHint === 'string' ? `\n${plugin.installHint.trim()}` : ''
  let credentials: T
  try {
    credentials = await run()
  } catch (cause) {
    const words =
      cause instanceof TypeError ? 'it returned no ExecCredential with a status' : messageOf(cause)
    throw new Error(`the exec plugin ${name} failed: ${words}${hint}`, { cause })
  }
  const { token, certificate, key } = answerOf(credentials)
  if (certificate !== key)
    throw new Error(`the exec plugin ${name} returned only a certificate or only a key`)
  if (!token && !certificate) throw new Error(`the exec plugin ${name} returned no token and no certificate`)
  return credentials
}

function messageOf(cause: unknown): string {
  const text = cause instanceof Error ? cause.message.trim() : String(cause)
  return text === '' ? 'it printed no error' : text
}
