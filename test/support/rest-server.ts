/**
 * The REST server of http-server.ts, with endpoints and publishing through a REST client: the calls of a test go through HTTP and
 * are validated against the document, including rejections.
 *
 *   const key = await makeOwnerKey(davit)
 *   const server = await startRestServer(davit, key)
 *   const { endpoint, secret } = await server.endpoints.create(davit.organization, draft, {})
 */

import type { components } from '../../docs/reference/openapi.d.ts'
import type { EndpointChange, EndpointDraft, EndpointId } from '../../src/server/endpoint-resource.ts'
import type { EndpointService } from '../../src/server/endpoints.ts'
import { Problem, type ProblemCode } from '../../src/server/http/problems.ts'
import type { Keyed } from '../../src/server/objects.ts'
import type { Publication, Published } from '../../src/server/publishing.ts'
import { applyRoles, makeAccount, makeToken } from './api-keys.ts'
import type { TestDavit } from './davit.ts'
import { startHttpServer } from './http-server.ts'
import type { LiveServer } from './live-server.ts'
import { openRestClient, type RestClient } from './rest-client.ts'

export type RestServer = Omit<LiveServer, 'endpoints' | 'publishing'> & {
  endpoints: RestEndpoints
  publishing: RestPublishing
}

type RestEndpoints = Pick<EndpointService, 'create' | 'list' | 'get' | 'change' | 'remove' | 'roll'>

/** REST returns less: a ping and a redelivery answer with only an id. */
export type RestPublishing = {
  publish(organization: string, publication: Publication, how: Keyed): Promise<Omit<Published, 'position'>>
  ping(id: EndpointId, how: Keyed): Promise<Queued>
  redeliver(id: EndpointId & { deliveryId: string }, how: Keyed): Promise<Queued>
}

export type Queued = Pick<Published, 'eventId' | 'replayed'>

export async function makeOwnerKey({ organization }: Pick<TestDavit, 'organization'>): Promise<string> {
  await applyRoles()
  await makeAccount(organization, 'owner', 'davit-owner')
  return makeToken(organization, 'owner')
}

/** @param key API token of an owner of the organization */
export async function startRestServer(davit: TestDavit, key: string): Promise<RestServer> {
  const http = await startHttpServer(davit)
  const client = await openRestClient(http, key)
  return {
    ...http.server,
    endpoints: endpointsOf(client),
    publishing: publishingOf(client),
    stop: http.stop,
  }
}

const HOOKS = '/organizations/{orgId}/webhooks'
const HOOK = '/organizations/{orgId}/webhooks/{endpointId}'

function endpointsOf(client: RestClient): RestEndpoints {
  return {
    async create(orgId, draft, how) {
      const params = { path: { orgId }, header: keyHeader(how) }
      const answer = await client.POST(HOOKS, { params, body: sent<EndpointDraft>(draft) })
      const { response } = answer
      return { ...dataOf(answer), ...etagOf(response), replayed: isReplayed(response) }
    },
    async list(orgId, { limit, after }) {
      const query = { limit, ...(after === undefined ? {} : { cursor: after }) }
      const { endpoints, cursor } = dataOf(await client.GET(HOOKS, { params: { path: { orgId }, query } }))
      return { endpoints, ...(cursor === null ? {} : { next: cursor }) }
    },
    async get(id) {
      const answer = await client.GET(HOOK, { params: { path: pathOf(id) } })
      return { endpoint: dataOf(answer).endpoint, etag: '', ...etagOf(answer.response) }
    },
    async change(id, change, { ifMatch }) {
      const params = { path: pathOf(id), header: matchHeader(ifMatch) }
      const answer = await client.PATCH(HOOK, { params, body: sent<EndpointChange>(change) })
      return { endpoint: dataOf(answer).endpoint, etag: '', ...etagOf(answer.response) }
    },
    async remove(id, { ifMatch }) {
      const params = { path: pathOf(id), header: matchHeader(ifMatch) }
      const { error, response } = await client.DELETE(HOOK, { params })
      if (error) throw refusalOf(error, response)
    },
    async roll(id, body, how) {
      const params = { path: pathOf(id), header: keyHeader(how) }
      const answer = await client.POST(`${HOOK}/secret/roll`, { params, body })
      return { ...dataOf(answer), replayed: isReplayed(answer.response) }
    },
  }
}

function publishingOf(client: RestClient): RestPublishing {
  return {
    async publish(orgId, { type, dataText }, how) {
      const answer = await client.POST('/organizations/{orgId}/events', {
        params: { path: { orgId }, header: keyHeader(how) },
        body: { type, data: dataText },
        // Verbatim, because parsing would lose digits.
        bodySerializer: () => `{"type":${JSON.stringify(type)},"data":${dataText}}`,
      })
      return { ...dataOf(answer), replayed: isReplayed(answer.response) }
    },
    async ping(id, how) {
      const params = { path: pathOf(id), header: keyHeader(how) }
      const answer = await client.POST(`${HOOK}/ping`, { params })
      return { eventId: dataOf(answer).webhookId, replayed: isReplayed(answer.response) }
    },
    async redeliver({ deliveryId, ...id }, how) {
      const params = { path: { ...pathOf(id), deliveryId }, header: keyHeader(how) }
      const answer = await client.POST(`${HOOK}/deliveries/{deliveryId}/redeliver`, { params })
      return { eventId: dataOf(answer).webhookId, replayed: isReplayed(answer.response) }
    },
  }
}

type ProblemBody = components['schemas']['Problem']

type Answer<T> = { data?: T; error?: ProblemBody; response: Response }

/** @throws Problem like the services do; another Error for other answers */
function dataOf<T>({ data, error, response }: Answer<T>): T {
  if (error) throw refusalOf(error, response)
  if (data === undefined) throw new Error(`${response.url} answers ${response.status} without a body`)
  return data
}

/** The codes of rejections by services. */
const CODES: Partial<Record<ProblemCode, true>> = {
  not_found: true,
  endpoint_disabled: true,
  idempotency_conflict: true,
  managed_elsewhere: true,
  too_many_endpoints: true,
  too_many_credentials: true,
  secrets_settings_required: true,
  cloud_account_not_ready: true,
  too_many_secrets: true,
  precondition_failed: true,
  unreadable: true,
  invalid: true,
  overloaded: true,
  intake_full: true,
  unavailable: true,
  cloud_unavailable: true,
  not_acknowledged: true,
}

function refusalOf({ code, detail, errors, condition }: ProblemBody, { headers, status }: Response): Error {
  if (!Object.hasOwn(CODES, code)) return new Error(`${status} ${code}`)
  const retryAfter = headers.get('retry-after')
  return new Problem(code as ProblemCode, {
    ...(detail === undefined ? {} : { detail }),
    ...(errors === undefined ? {} : { errors }),
    ...(condition === undefined ? {} : { condition }),
    ...(retryAfter === null ? {} : { retryAfter: Number(retryAfter) }),
  })
}

function pathOf({ organization, endpointId }: EndpointId) {
  return { orgId: organization, endpointId }
}

function keyHeader({ idempotencyKey }: Keyed): { 'Idempotency-Key'?: string } {
  return idempotencyKey === undefined ? {} : { 'Idempotency-Key': idempotencyKey }
}

function matchHeader(ifMatch: string | undefined): { 'If-Match'?: string } {
  return ifMatch === undefined ? {} : { 'If-Match': ifMatch }
}

function etagOf({ headers }: Response): { etag?: string } {
  const etag = headers.get('etag')
  return etag === null ? {} : { etag }
}

function isReplayed({ headers }: Response): boolean {
  return headers.get('idempotency-replayed') === 'true'
}

/** JSON has no undefined: fields with this value are not sent. */
function sent<T extends object>(body: T): { [K in keyof T]: Exclude<T[K], undefined> } {
  return body as { [K in keyof T]: Exclude<T[K], undefined> }
}
