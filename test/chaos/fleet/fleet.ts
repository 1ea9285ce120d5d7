/** Several controllers and REST servers on one control plane, with organizations that use them. */
import { API_VERSION } from '../../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  SERVER_ACCOUNT,
  startInstallation,
} from '../../support/installation.ts'
import { SecondApiServer } from '../../support/second-api-server.ts'
import { endpointsOf, type FleetEndpoint } from './endpoints.ts'
import { Member, type Role } from './member.ts'

export type FleetOptions = {
  controllers: number
  servers: number
  organizations: readonly string[]
  /** How long a silent replica is believed to live. */
  leaseMs: number
  /** Factor for the documented waits. */
  waitScale: number
  /** How long ended objects are kept. */
  retentionMs: number
  /** The limit of the log; absent: none that is reached. */
  logBytes?: number
  /** Delay of data from etcd to a second API server; absent: there is only one. */
  behindMs?: number
  /** For logs, clocks and kubeconfigs. */
  folder: string
}

export type Fleet = {
  davit: Installation
  second?: SecondApiServer
  controllers: Member[]
  servers: Member[]
  members: Member[]
  endpoints: FleetEndpoint[]
  /** Owners' API tokens, by organization. */
  keys: ReadonlyMap<string, string>
  stop(): Promise<void>
}

/** Request and space limits are not the subject of the test: ended objects are deleted when their time is over. */
const SETTINGS = {
  DAVIT_MAX_FINISHED_PER_ENDPOINT: '1000000',
  DAVIT_MAX_FINISHED_BYTES: '68719476736',
  DAVIT_MAX_WRITTEN_BYTES: String(64 * 1024 ** 3),
  DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: String(64 * 1024 ** 3),
  DAVIT_RETENTION_FAILED: `${30 * 86_400}s`,
}
const ETCD_BYTES = 8 * 1024 ** 3
const UNREACHED_BYTES = 8 * 1024 ** 3

export async function startFleet(options: FleetOptions): Promise<Fleet> {
  const davit = await startInstallation({
    logFolder: options.folder,
    etcdFlags: { 'quota-backend-bytes': String(ETCD_BYTES) },
  })
  const controllers: Member[] = []
  const servers: Member[] = []
  const members = () => [...controllers, ...servers]
  const stop = async () => {
    for (const { process, lives } of members()) if (lives.length > 0 && process.running) process.resume()
    await Promise.all(members().map((member) => (member.process.running ? member.kill() : undefined)))
    await Promise.all(members().map(({ proxy }) => proxy.close()))
    await second?.close()
    await davit.stop()
  }
  let second: SecondApiServer | undefined
  try {
    const { controlPlane } = davit
    if (options.behindMs !== undefined) second = await SecondApiServer.start(controlPlane, options.behindMs)
    const endpoints = endpointsOf(options.organizations)
    const keys = await makeOrganizations(davit, options.organizations)
    let lives = 0
    const prepare = async (role: Role, index: number, kubeconfigPath: string) =>
      await Member.prepare({
        role,
        index,
        kubeconfigPath,
        servers: [controlPlane.url, ...(second ? [second.url] : [])],
        namespace: OPERATOR_NAMESPACE,
        folder: options.folder,
        settings: {
          ...SETTINGS,
          DAVIT_LEASE_DURATION: `${options.leaseMs / 1000}s`,
          DAVIT_RETENTION_SUCCEEDED: `${options.retentionMs / 1000}s`,
          DAVIT_MAX_LOG_BYTES: String(options.logBytes ?? UNREACHED_BYTES),
          ...(role === 'controller' ? { DAVIT_WAIT_SCALE: String(options.waitScale) } : {}),
        },
        nextLife: () => {
          lives += 1
          return lives
        },
      })
    const controllerConfig = await davit.makeKubeconfig(CONTROLLER_ACCOUNT)
    for (let index = 0; index < options.controllers; index += 1)
      controllers.push(await prepare('controller', index, controllerConfig))
    const serverConfig = await davit.makeKubeconfig(SERVER_ACCOUNT)
    for (let index = 0; index < options.servers; index += 1)
      servers.push(await prepare('api', index, serverConfig))
    for (const member of members()) member.start(false)
    const parts = { davit, ...(second ? { second } : {}) }
    return { ...parts, controllers, servers, members: members(), endpoints, keys, stop }
  } catch (error) {
    await second?.close()
    await davit.stop()
    throw error
  }
}

async function makeOrganizations(
  davit: Installation,
  organizations: readonly string[],
): Promise<Map<string, string>> {
  const keys = new Map<string, string>()
  for (const organization of organizations) {
    await davit.makeOrganization(organization)
    const owner = await davit.makeAccount(organization, 'owner', 'davit-owner')
    keys.set(organization, await davit.makeKey(owner))
  }
  return keys
}

export async function makeEndpoints({ davit, endpoints }: Fleet, receiverUrl: string): Promise<void> {
  for (const { name, organization, types, ordered = false } of endpoints) {
    await davit.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: webhookEndpointKind.kind,
      metadata: { namespace: organization, name },
      spec: { url: `${receiverUrl}/${name}`, eventTypes: [...types], ordered },
    })
  }
}
