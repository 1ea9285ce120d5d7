/**
 * Davit as installed, on a separate control plane: the shipped CRDs, policies and roles, and each role of `davit` as a process
 * with its ServiceAccount:
 *
 *   const davit = await startInstallation()
 *   await davit.makeOrganization('acme')
 *   const controller = await davit.startController()
 *   const server = await davit.startServer()
 *   const key = await davit.makeKey(await davit.makeAccount('acme', 'owner', 'davit-owner'))
 *
 * It does not depend on vitest, so that scripts can use it too. `stop` ends everything.
 */

import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { type Account, writeKeyFile, writeKubeconfig } from '../../playground/api-keys.ts'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import {
  type ControlPlane,
  type ControlPlaneOptions,
  startControlPlane,
} from '../../playground/control-plane/control-plane.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation, applyObject, secretsBinding } from '../../playground/installation.ts'
import { builtinEventTypes } from '../../src/apis/builtin-event-types.ts'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { eventTypes } from '../../src/apis/event-type.ts'
import { ORGANIZATION_LABEL } from '../../src/apis/meta.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import { RoleProcess, type RoleProcessOptions } from './role-process.ts'

export const OPERATOR_NAMESPACE = 'davit-system'
export const SERVER_ACCOUNT = { namespace: OPERATOR_NAMESPACE, name: 'davit-api' }
export const CONTROLLER_ACCOUNT = { namespace: OPERATOR_NAMESPACE, name: 'davit-controller' }

export type RoleName = 'davit-owner' | 'davit-viewer' | 'davit-publisher'

export type Installation = {
  controlPlane: ControlPlane
  /** A client without restrictions. */
  api: KubernetesClient
  /** For files and, unless they have another folder, logs; removed at the end. */
  folder: string
  makeOrganization(name: string): Promise<void>
  /** A ServiceAccount, with a role if one is given. */
  makeAccount(namespace: string, name: string, role?: RoleName): Promise<Account>
  /** Grants an account of any namespace a role in this one. */
  bindRole(namespace: string, account: Account, role: RoleName): Promise<void>
  /** A token for the REST API. */
  makeKey(account: Account): Promise<string>
  /** A token for the API server. */
  makeToken(account: Account): Promise<string>
  /** @returns the path of a kubeconfig for this account */
  makeKubeconfig(account: Account): Promise<string>
  /** Does not wait until it is ready. */
  startController(settings?: Settings): Promise<RoleProcess>
  startServer(options?: ServerProcessOptions): Promise<ServerProcess>
  stop(): Promise<void>
}

export type ServerProcess = { process: RoleProcess; baseUrl: string; port: number; logPath: string }

export type ServerProcessOptions = {
  /** Port to listen on; absent: a new one. */
  port?: number
  replica?: string
  settings?: Settings
}

type Settings = Readonly<Record<string, string>>

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const CONFIG = fileURLToPath(new URL('../../config/', import.meta.url))

export type InstallationOptions = Pick<ControlPlaneOptions, 'audit' | 'dataDir' | 'logPath' | 'etcdFlags'> & {
  /** Folder for logs of the roles that are kept. */
  logFolder?: string
}

export async function startInstallation(options: InstallationOptions = {}): Promise<Installation> {
  await using stack = new AsyncDisposableStack()
  const folder = await mkdtemp(join(tmpdir(), 'davit-installation-'))
  stack.defer(() => rm(folder, { recursive: true, force: true }))
  const { logFolder = folder, ...controlPlaneOptions } = options
  const controlPlane = await startControlPlane(controlPlaneOptions)
  stack.defer(() => controlPlane.stop())
  await installCrds(controlPlane, CRDS)
  const { kubeconfigPath } = controlPlane
  const api = await connectKubernetes({ kubeconfigPath, clock: createClock(), random: createRandom() })
  stack.defer(() => api.close())
  await makeNamespace(api, OPERATOR_NAMESPACE)
  await applyInstallation(api, CONFIG)
  for (const type of builtinEventTypes)
    await api.create(eventTypes, { ...type, metadata: { ...type.metadata } })
  const accounts = accountsOf(controlPlane, api, folder)
  const roles = rolesOf({ logFolder, stack: stack.move(), ...accounts })
  const makeOrganization = async (name: string) => {
    await makeNamespace(api, name, { [ORGANIZATION_LABEL]: 'true' })
    await applyObject(api, secretsBinding(name, CONTROLLER_ACCOUNT))
  }
  return { controlPlane, api, folder, makeOrganization, ...accounts, ...roles }
}

async function makeNamespace(api: KubernetesClient, name: string, labels: Record<string, string> = {}) {
  await api.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels } })
}

function accountsOf({ access }: ControlPlane, api: KubernetesClient, folder: string) {
  const bindRole = (namespace: string, account: Account, role: RoleName) =>
    applyObject(api, {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'RoleBinding',
      metadata: { namespace, name: account.name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name: role },
      subjects: [{ kind: 'ServiceAccount', ...account }],
    })
  const makeAccount = async (namespace: string, name: string, role?: RoleName) => {
    const account = { namespace, name }
    await applyObject(api, { apiVersion: 'v1', kind: 'ServiceAccount', metadata: account })
    if (role !== undefined) await bindRole(namespace, account, role)
    return account
  }
  const makeKey = async (account: Account) => {
    const path = join(folder, `${account.namespace}.${account.name}.key`)
    await writeKeyFile(path, access, account)
    return await readFile(path, 'utf8')
  }
  const makeKubeconfig = async (account: Account) => {
    const path = join(folder, `${account.namespace}.${account.name}.kubeconfig`)
    await writeKubeconfig(path, access, account)
    return path
  }
  const makeToken = async (account: Account) => {
    const config = JSON.parse(await readFile(await makeKubeconfig(account), 'utf8')) as {
      users: { user: { token: string } }[]
    }
    return config.users[0]?.user.token ?? ''
  }
  return { bindRole, makeAccount, makeKey, makeToken, makeKubeconfig }
}

type RolesOptions = {
  logFolder: string
  stack: AsyncDisposableStack
  makeKubeconfig(account: Account): Promise<string>
}

function rolesOf({ logFolder, stack, makeKubeconfig }: RolesOptions) {
  let started = 0
  const start = async (
    options: Omit<RoleProcessOptions, 'opsPort' | 'namespace' | 'replica'>,
    replica?: string,
  ) => {
    started += 1
    const process = new RoleProcess({
      ...options,
      namespace: OPERATOR_NAMESPACE,
      replica: replica ?? `${options.role}-${started}`,
      opsPort: await freePort(),
    })
    stack.defer(async () => {
      if (process.running) await process.kill()
    })
    return process
  }
  const startController = async (settings: Settings = {}) => {
    const kubeconfigPath = await makeKubeconfig(CONTROLLER_ACCOUNT)
    return await start({
      role: 'controller',
      kubeconfigPath,
      logPath: join(logFolder, 'controller.log'),
      settings,
    })
  }
  const startServer = async ({ port, replica, settings }: ServerProcessOptions = {}) => {
    const at = port ?? (await freePort())
    const logPath = join(logFolder, `api-${at}.log`)
    const process = await start(
      {
        role: 'api',
        kubeconfigPath: await makeKubeconfig(SERVER_ACCOUNT),
        logPath,
        settings: { DAVIT_API_ADDRESS: `127.0.0.1:${at}`, ...settings },
      },
      replica,
    )
    return { process, baseUrl: `http://127.0.0.1:${at}`, port: at, logPath }
  }
  return { startController, startServer, stop: () => stack.disposeAsync() }
}
