/**
 * The shipped rights in config/rbac, compared with their use: the audit log of an API server on which the REST server did
 * everything that it can do, and people did what their roles are for.
 */

import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { eventTypes } from '../../src/apis/event-type.ts'
import { GROUP } from '../../src/apis/meta.ts'
import { Cursors } from '../../src/server/lists.ts'
import { allRoutes } from '../../src/server/routes.ts'
import { type AuditEntry, readAuditTrail } from '../support/audit-trail.ts'
import { FakeClock } from '../support/fake-clock.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  type RoleName,
  SERVER_ACCOUNT,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import { KUBECTL_USES, useKubectl } from '../support/kubectl-uses.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { FakeServices } from '../support/server-services.ts'
import { tourServer } from '../support/server-tour.ts'
import { covers, nameOfRight, type Right, shippedRights } from '../support/shipped-rights.ts'

const ORGANIZATION = 'acme'
const FULL_ORGANIZATION = 'full'
const MISSING_TYPE = 'member.joined'
const ROLES = Object.keys(KUBECTL_USES) as RoleName[]

let davit: Installation
let receiver: Receiver
let auditFolder: string
let trail: AuditEntry[]
let metrics: string
let servedKinds: ReadonlySet<string>

beforeAll(async () => {
  auditFolder = process.env.DAVIT_AUDIT_FOLDER ?? (await mkdtemp(join(tmpdir(), 'davit-audit-')))
  const logPath = join(auditFolder, 'rbac.log')
  receiver = await startReceiver()
  davit = await startInstallation({ audit: { logPath, level: 'Request' } })
  for (const name of [ORGANIZATION, FULL_ORGANIZATION]) await davit.makeOrganization(name)
  // It makes those that are missing.
  await davit.api.delete(eventTypes, { name: MISSING_TYPE })
  // Without views, so that the log has to be read.
  const controller = await davit.startController({ DAVIT_VIEWS_PER_SECOND: '0' })
  await controller.untilReady()
  const server = await davit.startServer()
  await server.process.untilReady()
  try {
    await tour(server)
  } catch (cause) {
    trail = await readAuditTrail(logPath)
    throw new Error(`a request failed; the REST server may not: ${forbiddenDeeds().join(', ')}`, { cause })
  }
  metrics = await (await fetch(server.process.metricsUrl)).text()
  await server.process.stop()
  // What it made the first time it finds the second time.
  const next = await davit.startServer()
  await next.process.untilReady()
  await next.process.stop()
  for (const role of ROLES) await useKubectl(davit, role, ORGANIZATION, receiver.url)
  trail = await readAuditTrail(logPath)
  servedKinds = await kindsServed()
}, 240_000)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
  if (!process.env.DAVIT_AUDIT_FOLDER) await rm(auditFolder, { recursive: true, force: true })
})

async function tour(server: ServerProcess): Promise<void> {
  const owner = await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner')
  await davit.bindRole(FULL_ORGANIZATION, owner, 'davit-owner')
  const viewer = await davit.makeAccount(ORGANIZATION, 'viewer', 'davit-viewer')
  const publisher = await davit.makeAccount(ORGANIZATION, 'publisher', 'davit-publisher')
  const [ownerKey, viewerKey, publisherKey] = await Promise.all([owner, viewer, publisher].map(davit.makeKey))
  await tourServer({
    davit,
    server,
    receiverUrl: receiver.url,
    organization: ORGANIZATION,
    fullOrganization: FULL_ORGANIZATION,
    keys: { owner: ownerKey ?? '', viewer: viewerKey ?? '', publisher: publisherKey ?? '' },
  })
}

async function kindsServed(): Promise<Set<string>> {
  const path = `/apis/${GROUP}/v1alpha1`
  const { body } = await requestApi(davit.controlPlane.access, { method: 'GET', path })
  return new Set((body as { resources: { name: string }[] }).resources.map(({ name }) => name))
}

function userOf({ namespace, name }: { namespace: string; name: string }): string {
  return `system:serviceaccount:${namespace}:${name}`
}

/** The REST server's own calls. */
function deedsOfServer(): AuditEntry[] {
  return trail.filter(({ user }) => user === userOf(SERVER_ACCOUNT))
}

/** Calls without a right; rejections by the cluster's quota are not about rights. */
function forbiddenDeeds(deeds = deedsOfServer()): string[] {
  const refused = deeds.filter(({ code, allowedBy }) => code === 401 || (code === 403 && allowedBy === ''))
  return refused.map(nameOfRight)
}

describe('the controller beside it', () => {
  const deeds = () => trail.filter(({ user }) => user === userOf(CONTROLLER_ACCOUNT))

  test('has met no Forbidden, with the rights of its ServiceAccount alone', () => {
    expect(forbiddenDeeds(deeds())).toEqual([])
    expect(deeds().length).toBeGreaterThan(50)
  })

  test('has made the event type that was missing', async () => {
    expect((await davit.api.get(eventTypes, { name: MISSING_TYPE })).metadata.name).toBe(MISSING_TYPE)
  })

  test('has used no right that it has from elsewhere', () => {
    // What everyone may, it may twice.
    const own = /RoleBinding "davit-(controller|controller-bakes|secrets|event-types)(\/|")/
    const others = deeds().filter(({ allowedBy }) => !own.test(allowedBy))
    expect(others.map((deed) => `${nameOfRight(deed)}: ${deed.allowedBy}`)).toEqual([])
  })
})

describe('the REST server, having done everything that it can do', () => {
  test('has answered every route with success', () => {
    const routes = allRoutes({
      ...new FakeServices([]),
      cursors: new Cursors(Buffer.from('k'), new FakeClock()),
    })
    const unanswered = routes.filter(
      ({ id, success }) =>
        !metrics.includes(`davit_http_requests_total{route="${id}",code="${success.status}"}`),
    )
    expect(unanswered.map(({ id }) => id)).toEqual([])
  })

  test('has met no Forbidden', () => {
    expect(forbiddenDeeds()).toEqual([])
    expect(deedsOfServer().length).toBeGreaterThan(50)
  })

  test('has used every right of its ServiceAccount', async () => {
    const rights = await shippedRights('davit-api')
    const unused = rights.filter(
      (right) => !deedsOfServer().some((deed) => covers(right, deed, OPERATOR_NAMESPACE)),
    )
    expect(unused.map(nameOfRight)).toEqual([])
    expect(rights.length).toBeGreaterThan(20)
  })

  test('has used no right that it has from elsewhere', () => {
    // Kubernetes lets every ServiceAccount read the public keys of tokens. Where it does not, only the API server checks tokens.
    const own = /RoleBinding "(davit-(api|event-types)|system:service-account-issuer-discovery)(\/|")/
    const others = deedsOfServer().filter(({ allowedBy }) => !own.test(allowedBy))
    expect(others.map((deed) => `${nameOfRight(deed)}: ${deed.allowedBy}`)).toEqual([])
  })

  test('holds nothing with a wildcard', async () => {
    for (const role of ['davit-api', ...ROLES]) {
      const parts = (await shippedRights(role)).flatMap(({ verb, group, resource }) => [
        verb,
        group,
        resource,
      ])
      expect(parts).not.toContain('*')
    }
  })
})

describe.each(ROLES)('the role %s', (role) => {
  const account = { namespace: ORGANIZATION, name: role.replace('davit-', '') }
  const own = () => trail.filter(({ user }) => user === userOf(account))
  const asked = () =>
    trail.flatMap(({ question }) => (question && question.user === userOf(account) ? [question] : []))

  test('gives no right that neither a route asks for nor a command of kubectl needs', async () => {
    const isUsed = (right: Right) =>
      [...own(), ...asked()].some((deed) => covers(right, deed, OPERATOR_NAMESPACE))
    // Rights on kinds that are not served yet are looked at when they are.
    const rights = (await shippedRights(role)).filter(({ resource }) => servedKinds.has(resource))
    expect(rights.filter((right) => !isUsed(right)).map(nameOfRight)).toEqual([])
    expect(rights).not.toEqual([])
  })

  test('is enough for what people do with kubectl', () => {
    // For an empty list kubectl checks whether the namespace exists, and does without an answer.
    const refused = own().filter(({ code, group }) => code === 401 || (code === 403 && group === GROUP))
    expect(refused.map(nameOfRight)).toEqual([])
    expect(own()).not.toEqual([])
  })
})

describe('with the policy on Secrets, the token of the REST server', () => {
  const secretsPath = `/api/v1/namespaces/${OPERATOR_NAMESPACE}/secrets`
  let token: string
  let call: (method: string, path: string, body?: object) => Promise<number>

  beforeAll(async () => {
    token = await davit.makeToken(SERVER_ACCOUNT)
    const { access } = davit.controlPlane
    call = async (method, path, body) =>
      (await requestApi(access, { method, path, token, ...(body ? { body } : {}) })).status
    const other = { metadata: { name: 'other' }, type: 'Opaque' }
    const { status } = await requestApi(access, { method: 'POST', path: secretsPath, body: other })
    expect(status).toBe(201)
  })

  test.each([
    {
      what: 'a token of another ServiceAccount',
      body: {
        metadata: {
          name: 'stolen',
          annotations: { 'kubernetes.io/service-account.name': 'davit-controller' },
        },
        type: 'kubernetes.io/service-account-token',
      },
    },
    { what: 'a Secret of its own choice', body: { metadata: { name: 'stolen' }, type: 'Opaque' } },
  ])('does not make $what', async ({ body }) => {
    expect(await call('POST', `${secretsPath}?dryRun=All`, body)).toBe(403)
  })

  test("does not delete another's Secret, nor list what is there", async () => {
    expect(await call('DELETE', `${secretsPath}/other`)).toBe(403)
    expect(await call('GET', secretsPath)).toBe(403)
    expect(await call('GET', '/api/v1/secrets')).toBe(403)
    expect(await call('GET', `/api/v1/namespaces/${ORGANIZATION}/secrets/any`)).toBe(403)
  })

  test('makes a signing key all the same', async () => {
    const body = { metadata: { name: 'acme.any' }, type: 'davit.dev/signing-keys' }
    expect(await call('POST', `${secretsPath}?dryRun=All`, body)).toBe(201)
  })
})

test('with the policy on Leases, the token of the REST server writes its own, and none of a controller', async () => {
  const path = `/apis/coordination.k8s.io/v1/namespaces/${OPERATOR_NAMESPACE}/leases`
  const { access } = davit.controlPlane
  const token = await davit.makeToken(SERVER_ACCOUNT)
  const lease = (name: string) => ({
    method: 'POST',
    path,
    body: { apiVersion: 'coordination.k8s.io/v1', kind: 'Lease', metadata: { name } },
  })
  const other = 'davit-controller-other'
  expect((await requestApi(access, lease(other))).status).toBe(201)
  const statuses: number[] = []
  for (const request of [
    lease('davit-api-any'),
    { method: 'DELETE', path: `${path}/davit-api-any` },
    lease('davit-controller-any'),
    { method: 'DELETE', path: `${path}/${other}` },
  ])
    statuses.push((await requestApi(access, { ...request, token })).status)
  expect(statuses).toEqual([201, 200, 403, 403])
})
