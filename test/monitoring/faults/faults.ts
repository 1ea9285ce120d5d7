/** Real faults, each of which fires its alerts. They follow each other, and each is fixed before the next. */
import { setTimeout as sleep } from 'node:timers/promises'
import { configMaps, namespaces } from '../../../src/apis/core-kinds.ts'
import { API_VERSION, OWNER_EMAILS_ANNOTATION, type ResourceType } from '../../../src/apis/meta.ts'
import { registryCredentialKind, registryCredentials } from '../../../src/apis/registry-credential.ts'
import { webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { FAILED_DELETIONS_NAME } from '../../../src/credentials/controller/failed-deletions.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { createTestAuthority } from '../../support/tls.ts'
import { API_SETTINGS, EVENT_TYPE, type MonitoringBed, ORGANIZATION } from '../bed/bed.ts'
import { type Fault, OTHER_TYPE, untilKnown } from './fault.ts'
import { manyArePending, muchIsOpen, muchIsWritten } from './low-limits.ts'
import { makeTemplates } from './templates.ts'

const DAY_MS = 24 * 3_600_000
const DEAD_ENDPOINTS = ['dead-1', 'dead-2', 'dead-3', 'dead-4', 'dead-5']

const endpointsFail: Fault = {
  what: 'one receiver answers with 500, and five are not there',
  alerts: ['DavitEndpointFails', 'DavitManyEndpointsFail'],
  async cause(bed) {
    bed.receiver.answer('/broken', { status: 500 })
    await bed.endpoint('broken', `${bed.receiver.url}/broken`)
    for (const name of DEAD_ENDPOINTS) await bed.endpoint(name, bed.deadUrl)
    await untilKnown()
    await bed.publish({ n: 1 })
  },
  async mend({ davit }) {
    for (const name of ['broken', ...DEAD_ENDPOINTS])
      await davit.api.delete(webhookEndpoints, { namespace: ORGANIZATION, name })
  },
}

const endpointDisabled: Fault = {
  what: 'a fifth delivery is exhausted a day after the first, and there is no mail server',
  alerts: ['DavitEndpointDisabled', 'DavitOwnersNotNotified'],
  async cause(bed) {
    const { api } = bed.davit
    const annotations = { [OWNER_EMAILS_ANNOTATION]: 'owner@example.com' }
    await api.patch(namespaces, { name: ORGANIZATION }, { metadata: { annotations } })
    await bed.endpoint('old', bed.deadUrl, { eventTypes: [OTHER_TYPE], ordered: true })
    await untilKnown()
    const failingSince = new Date(Date.now() - 2 * DAY_MS).toISOString()
    const ref = { namespace: ORGANIZATION, name: 'old' }
    const status = { consecutiveFailures: 4, failingSince }
    await api.patch(webhookEndpoints, ref, { status }, { subresource: 'status' })
    await untilKnown()
    await bed.publish({ n: 1 }, OTHER_TYPE)
  },
}

const notReady: Fault = {
  what: 'a credential has no account, and templates name the wrong registry',
  alerts: ['DavitCredentialsNotReady', 'DavitBakesFail'],
  async cause({ davit: { api } }) {
    const credential = (name: string, spec: object) =>
      api.create(registryCredentials, {
        apiVersion: API_VERSION,
        kind: registryCredentialKind.kind,
        metadata: { namespace: ORGANIZATION, name },
        spec,
      })
    await credential('token', {
      type: 'token',
      label: 'Without an account',
      registry: 'ghcr.io',
      username: 'acme',
      secretRef: { name: 'none' },
    })
    const registry = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
    await credential('ecr', { type: 'ecr', label: 'Ready', registry })
    await makeTemplates(api, ORGANIZATION)
  },
}

const slowApiServer: Fault = {
  what: 'what goes to the API server and back is a second late',
  alerts: ['DavitApiServerSlow'],
  async cause({ members }) {
    for (const { proxy } of members) proxy.delay('up', 1100)
  },
  goOn: (bed) => bed.publish({ n: 2 }),
  mend: heal,
}

const noApiServer: Fault = {
  what: 'there is no way to the API server, while deliveries are under way',
  alerts: ['DavitApiServerRejects', 'DavitLeaseLost', 'DavitNotReady', 'DavitStoreBehind', 'DavitRestFails'],
  async cause(bed) {
    bed.receiver.answer('/slow', { delayMs: 2000 })
    await bed.endpoint('slow', `${bed.receiver.url}/slow`)
    await untilKnown()
    await Promise.all(Array.from({ length: 8 }, (_, n) => bed.publish({ n })))
    await sleep(300)
    for (const { proxy } of bed.members) proxy.cut()
  },
  // Each is answered after ten seconds, so they are not waited for.
  goOn: async (bed) => void bed.publish({ n: 5 }),
  async mend(bed) {
    await heal(bed)
    await bed.davit.api.delete(webhookEndpoints, { namespace: ORGANIZATION, name: 'slow' })
  },
}

const clusterRoles: ResourceType = {
  group: 'rbac.authorization.k8s.io',
  version: 'v1',
  plural: 'clusterroles',
  namespaced: false,
}
/** As they ship. */
let rules: unknown

const rightTaken: Fault = {
  what: 'the controller may no longer write the status of WebhookEvents',
  alerts: ['DavitReconciliationFails', 'DavitEventsWait'],
  async cause(bed) {
    const { api } = bed.davit
    const role = await api.get(clusterRoles, { name: 'davit-controller' })
    rules = role.rules
    const left = (role.rules as { resources: string[] }[])
      .map((rule) => ({
        ...rule,
        resources: rule.resources.filter((name) => name !== 'webhookevents/status'),
      }))
      .filter(({ resources }) => resources.length > 0)
    await api.patch(clusterRoles, { name: 'davit-controller' }, { rules: left })
    await bed.makeEvent({ n: 3 })
  },
  mend: ({ davit }) => davit.api.patch(clusterRoles, { name: 'davit-controller' }, { rules }),
}

const controllerHangs: Fault = {
  what: 'a controller hangs',
  alerts: ['DavitShardsUnowned'],
  cause: async ({ controllers: [, second] }) => second.process.suspend(),
  mend: async ({ controllers: [, second] }) => second.restart(),
}

const serverHangs: Fault = {
  what: 'a replica of the REST API hangs, and endpoints are changed through another',
  alerts: ['DavitChangesHang'],
  async cause(bed) {
    await bed.endpoint('changed', `${bed.receiver.url}/changed`)
    bed.servers[1].process.suspend()
  },
  async goOn({ request, servers: [server] }) {
    void request(server, 'PATCH', '/webhooks/whe_changed', { description: `at ${Date.now()}` })
  },
  mend: async ({ servers: [, second] }) => second.process.resume(),
}

const noTurn: Fault = {
  what: 'a process gets no CPU most of the time',
  alerts: ['DavitProcessBusy'],
  cause: async () => undefined,
  async goOn({ servers: [server] }) {
    server.process.suspend()
    await sleep(800)
    server.process.resume()
    await sleep(200)
  },
}

const manyStreams: Fault = {
  what: 'clients open streams and keep them',
  alerts: ['DavitStreamsNearLimit'],
  cause: async () => undefined,
  // Each lasts until its client gives up, so it is not waited for.
  async goOn({ request, servers: [server] }) {
    void request(server, 'GET', '/stream')
  },
}

const killed: Fault = {
  what: 'controllers are killed again and again, and a parameter is left in an account that is closed',
  alerts: ['DavitRestarts', 'DavitParametersOrphaned'],
  async cause({ davit, controllers }) {
    const orphan = {
      name: '/davit/acme/rc_gone',
      account: '123456789012',
      region: 'eu-west-1',
      roleArn: 'arn:aws:iam::123456789012:role/gone',
      reason: 'CloudUnavailable',
      organization: ORGANIZATION,
      organizationUid: 'gone',
      recordedAt: new Date(0).toISOString(),
    }
    await davit.api.create(configMaps, {
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { namespace: OPERATOR_NAMESPACE, name: FAILED_DELETIONS_NAME },
      data: { orphan: JSON.stringify(orphan) },
    })
    for (let time = 0; time < 3; time += 1) {
      await Promise.all(controllers.map((member) => member.restart()))
      await Promise.all(controllers.map((member) => member.process.untilReady()))
      // Prometheus must have seen each.
      await sleep(1500)
    }
  },
}

const shortCertificate: Fault = {
  what: 'the certificate of the REST API ends tomorrow',
  alerts: ['DavitCertificateExpires'],
  async cause(bed) {
    const { cert, key } = createTestAuthority().issue(['127.0.0.1'], 1)
    await bed.servers[1].restart({
      ...API_SETTINGS,
      DAVIT_API_CERTIFICATE_FILE: await bed.writeFile('api.crt', cert),
      DAVIT_API_KEY_FILE: await bed.writeFile('api.key', key),
    })
  },
}

const gone: Fault = {
  what: 'neither role runs',
  alerts: ['DavitControllerDown', 'DavitApiDown'],
  cause: ({ members }) => Promise.all(members.map((member) => member.kill())),
}

export const FAULTS: readonly Fault[] = [
  notReady,
  endpointsFail,
  endpointDisabled,
  slowApiServer,
  noApiServer,
  rightTaken,
  serverHangs,
  controllerHangs,
  noTurn,
  manyStreams,
  killed,
  shortCertificate,
  muchIsWritten,
  muchIsOpen,
  manyArePending,
  gone,
]

async function heal({ members }: MonitoringBed): Promise<void> {
  for (const { proxy } of members) proxy.heal()
}

/** A delivery now and then to an endpoint that is well. */
export async function everydayTraffic(bed: MonitoringBed, signal: AbortSignal): Promise<void> {
  await bed.endpoint('well', `${bed.receiver.url}/well`, { eventTypes: [EVENT_TYPE, OTHER_TYPE] })
  while (!signal.aborted) {
    await bed.publish({ at: Date.now() })
    await sleep(200)
  }
}
