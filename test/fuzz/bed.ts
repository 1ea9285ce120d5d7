/** A REST server as in a cluster, with an organization that has endpoints, deliveries and credentials. */

import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { makeOwner, OWNER, writeKeyFile, writeKubeconfig } from '../../playground/api-keys.ts'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { startDavitProcess } from '../../playground/davit-process.ts'
import { freePort } from '../../playground/free-port.ts'
import { applyInstallation } from '../../playground/installation.ts'
import {
  makeEndpoints,
  makeNamespaces,
  OPERATOR_NAMESPACE,
  ORGANIZATION,
  OTHER_ORGANIZATION,
} from '../../playground/organization.ts'
import { boxTemplates } from '../../src/apis/box-template.ts'
import { eventTypeKind, eventTypes } from '../../src/apis/event-type.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { parseConfig } from '../../src/cmd/config.ts'
import { createControllerDependencies } from '../../src/cmd/dependencies.ts'
import { startController } from '../../src/cmd/start-controller.ts'
import { connectKubernetes, type KubernetesClient } from '../../src/kube/resources.ts'
import { createLogger } from '../../src/lib/log.ts'
import { createClock, createRandom } from '../../src/lib/time.ts'
import type { WebhookSender } from '../../src/webhooks/sender/send-failures.ts'
import { TestAws } from '../support/aws/organization-account.ts'
import { answered, openRestClient, type RestClient } from '../support/rest-client.ts'
import { templateObject } from '../support/template-object.ts'

export type FuzzBed = {
  baseUrl: string
  /** Of an owner of the organization, and of another one's. */
  key: string
  otherKey: string
  /** Where deliveries are taken. */
  receiver: string
  organization: string
  /** Ids of endpoints and of deliveries: each of the endpoints has each of the deliveries. */
  endpoints: string[]
  deliveries: string[]
  /** Ids of registry credentials. */
  credentials: string[]
  /** Names. */
  boxTemplates: string[]
}

const ROOT = fileURLToPath(new URL('../..', import.meta.url))

/** The limits are what other tests are about; here they would hide what is behind them. */
const SETTINGS = {
  DAVIT_ALLOWED_NETWORKS: '127.0.0.0/8,::1/128',
  DAVIT_MAX_REQUESTS_PER_KEY: '1000000',
  DAVIT_MAX_REQUESTS_PER_ORGANIZATION: '1000000',
  DAVIT_MAX_ENDPOINTS_PER_ORGANIZATION: '100000',
  DAVIT_MAX_CREDENTIALS_PER_ORGANIZATION: '5000',
  DAVIT_MAX_PENDING: '10000000',
  DAVIT_MAX_PENDING_PER_ORGANIZATION: '10000000',
  DAVIT_SHUTDOWN_TIMEOUT: '1s',
}
/** Many, since deleting is tried as well. */
const ENDPOINTS = 120
const DELIVERIES = 5
const CREDENTIALS = 80
const TEMPLATES = 5
/** A type that nothing else in here publishes. */
const SEED_TYPE = 'billing.updated'
/** Of an event type whose data may be anything. */
const ANYTHING = 'fuzz.anything'

/** Everything that was started ends with `stack`. @param folder for its files; logs stay there */
export async function layBed(folder: string, stack: AsyncDisposableStack): Promise<FuzzBed> {
  const controlPlane = await startControlPlane({ logPath: join(folder, 'control-plane.log') })
  stack.defer(() => controlPlane.stop())
  await installCrds(controlPlane, `${ROOT}crds`)
  const api = await connectKubernetes({
    kubeconfigPath: controlPlane.kubeconfigPath,
    clock: createClock(),
    random: createRandom(),
  })
  stack.defer(() => api.close())
  await makeNamespaces(api)
  await applyInstallation(api, `${ROOT}config/`)
  for (const organization of [ORGANIZATION, OTHER_ORGANIZATION]) await makeOwner(api, organization)
  const receiver = await startSink(stack)
  await makeEndpoints(api, receiver)
  await makeAnything(api)
  const templates = await makeTemplates(api)
  // No generated role is one of an existing account, which is checked quickly.
  const aws = await TestAws.start()
  stack.defer(() => aws.stop())
  await startDelivering(controlPlane, receiver, stack)
  const server = await startServerBed(controlPlane, { folder, environment: aws.environment() }, stack)
  const seeded = await seed(server, receiver)
  return { ...server, receiver, organization: ORGANIZATION, boxTemplates: templates, ...seeded }
}

/** Takes everything and keeps nothing. */
async function startSink(stack: AsyncDisposableStack): Promise<string> {
  const server = createServer((request, response) => {
    request.resume().on('end', () => response.end())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  stack.defer(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

async function makeAnything(api: KubernetesClient): Promise<void> {
  await api.create(eventTypes, {
    apiVersion: API_VERSION,
    kind: eventTypeKind.kind,
    metadata: { name: ANYTHING },
    spec: { description: 'Whatever comes to mind.' },
  })
}

async function makeTemplates(api: KubernetesClient): Promise<string[]> {
  const names = Array.from({ length: TEMPLATES }, (_, number) => `template-${number}`)
  for (const name of names) await api.create(boxTemplates, templateObject(ORGANIZATION, name))
  return names
}

/** The controller, in this process, so that what it sends can be kept here. */
async function startDelivering(
  { kubeconfigPath }: ControlPlane,
  receiver: string,
  stack: AsyncDisposableStack,
): Promise<void> {
  const config = parseConfig({
    ...SETTINGS,
    KUBECONFIG: kubeconfigPath,
    DAVIT_NAMESPACE: OPERATOR_NAMESPACE,
    DAVIT_REPLICA: 'fuzz',
  })
  const log = createLogger({ level: 'error', clock: createClock() })
  const version = '0.0.0-fuzz'
  const dependencies = await createControllerDependencies({
    config,
    secrets: { smtpUrl: undefined },
    log,
    version,
  })
  stack.defer(() => dependencies.close())
  const sender = stayingHere(dependencies.sender, receiver)
  const controller = await startController({ config, dependencies: { ...dependencies, sender }, version })
  stack.defer(() => controller.stop())
  await controller.ready
}

/** URLs are generated, and some of them belong to others: only our own receiver gets requests. */
function stayingHere(sender: WebhookSender, receiver: string): WebhookSender {
  return {
    send: async (request, signal) =>
      request.url.startsWith(`${receiver}/`)
        ? sender.send(request, signal)
        : { kind: 'response', code: 204, latencyMs: 0, response: '' },
  }
}

type FuzzedServer = Pick<FuzzBed, 'baseUrl' | 'key' | 'otherKey'>

/** The role as a process, with the rights that ship. */
async function startServerBed(
  { access }: ControlPlane,
  { folder, environment }: { folder: string; environment: Record<string, string> },
  stack: AsyncDisposableStack,
): Promise<FuzzedServer> {
  const kubeconfig = join(folder, 'api.kubeconfig')
  await writeKubeconfig(kubeconfig, access, { namespace: OPERATOR_NAMESPACE, name: 'davit-api' })
  const port = await freePort()
  const server = startDavitProcess({
    role: 'api',
    kubeconfig,
    namespace: OPERATOR_NAMESPACE,
    opsPort: await freePort(),
    settings: { ...SETTINGS, ...environment, DAVIT_API_ADDRESS: `127.0.0.1:${port}` },
    logPath: join(folder, 'api.log'),
  })
  stack.defer(() => server.stop())
  await server.ready
  const keyOf = async (namespace: string) => {
    const file = join(folder, `${namespace}.key`)
    await writeKeyFile(file, access, { namespace, name: OWNER })
    return readFile(file, 'utf8')
  }
  const [key, otherKey] = [await keyOf(ORGANIZATION), await keyOf(OTHER_ORGANIZATION)]
  return { baseUrl: `http://127.0.0.1:${port}`, key, otherKey }
}

async function seed(
  server: FuzzedServer,
  receiver: string,
): Promise<Pick<FuzzBed, 'endpoints' | 'deliveries' | 'credentials'>> {
  const client = await openRestClient(server, server.key)
  const params = { path: { orgId: ORGANIZATION } }
  const endpoints: string[] = []
  for (let number = 0; number < ENDPOINTS; number += 1) {
    const created = await client.POST('/organizations/{orgId}/webhooks', {
      params,
      body: {
        url: `${receiver}/seed/${number}`,
        eventTypes: [SEED_TYPE],
        ordered: number % 3 === 0,
      },
    })
    endpoints.push(answered(created).endpoint.endpointId)
  }
  const deliveries: string[] = []
  for (let number = 0; number < DELIVERIES; number += 1) {
    const body = { type: SEED_TYPE, data: {} }
    deliveries.push(answered(await client.POST('/organizations/{orgId}/events', { params, body })).eventId)
  }
  return { endpoints, deliveries, credentials: await seedCredentials(client) }
}

async function seedCredentials(client: RestClient): Promise<string[]> {
  const credentials: string[] = []
  for (let number = 0; number < CREDENTIALS; number += 1) {
    const registry = `${String(number).padStart(12, '1')}.dkr.ecr.eu-west-1.amazonaws.com`
    const created = await client.POST('/organizations/{orgId}/registry-credentials', {
      params: { path: { orgId: ORGANIZATION } },
      body: { type: 'ecr', label: `Seed ${number}`, registry },
    })
    credentials.push(answered(created).id)
  }
  return credentials
}
