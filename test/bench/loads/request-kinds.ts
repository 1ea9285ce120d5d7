/** Each kind of request that an owner makes, again and again, on endpoints that are there for it. */
import { type Asked, bodyOf, type HttpClient } from './http-client.ts'

export const REQUEST_KINDS = [
  'create',
  'list',
  'read',
  'change',
  'pause or resume',
  'delete',
  'event types',
  'ping',
  'deliveries',
  'delivery',
  'redeliver',
  'roll',
] as const
export type RequestKind = (typeof REQUEST_KINDS)[number]

/** An organization, and what the requests are about. */
export type Tenant = {
  /** `/organizations/...` */
  path: string
  key: string
  /** An endpoint with deliveries, and the ids of those. */
  logged: { id: string; deliveries: readonly string[] }
  /** Ids of endpoints that get nothing. */
  plain: readonly string[]
  paused: { id: string; disabled: boolean }[]
  /** To be deleted; those that are created come behind them. */
  spare: string[]
}

/** `url` is where endpoints deliver to, `type` what those that get nothing subscribe to. */
export type Draft = { url: string; type: string }

/** Before it has a key. */
export type Question = Omit<Asked, 'key'>
/** @param turn counts from 0, for each kind and tenant */
type Maker = (tenant: Tenant, turn: number, draft: Draft) => Question & { take?: (body: unknown) => void }

const PAGE = 50
/** Requests of two kinds that come together are about different endpoints. */
const APART = 3

const MAKERS: Readonly<Record<RequestKind, Maker>> = {
  create: ({ path, spare }, _turn, { url, type }) => ({
    ...createRequest(path, { url, eventTypes: [type] }),
    take: (body) => spare.push(endpointIdOf(body)),
  }),
  list: ({ path }) => get(`${path}/webhooks?limit=${PAGE}`),
  read: ({ path, plain }, turn) => get(`${path}/webhooks/${at(plain, turn)}`),
  change: ({ path, plain }, turn) => ({
    method: 'PATCH',
    path: `${path}/webhooks/${at(plain, turn)}`,
    body: JSON.stringify({ description: `Changed ${turn} times` }),
    wanted: 200,
  }),
  'pause or resume': ({ path, paused }, turn) => {
    const endpoint = at(paused, turn)
    endpoint.disabled = !endpoint.disabled
    const body = JSON.stringify({ status: endpoint.disabled ? 'disabled' : 'enabled' })
    return { method: 'PATCH', path: `${path}/webhooks/${endpoint.id}`, body, wanted: 200 }
  },
  delete: ({ path, spare }) => ({
    method: 'DELETE',
    path: `${path}/webhooks/${spare.shift() ?? 'none'}`,
    wanted: 204,
  }),
  'event types': ({ path }) => get(`${path}/webhooks/event-types`),
  ping: ({ path, logged }) => post(`${path}/webhooks/${logged.id}/ping`),
  deliveries: ({ path, logged }) => get(`${path}/webhooks/${logged.id}/deliveries?limit=${PAGE}`),
  delivery: (tenant, turn) => get(deliveryPath(tenant, turn)),
  redeliver: (tenant, turn) => post(`${deliveryPath(tenant, turn)}/redeliver`),
  roll: ({ path, plain }, turn) => ({
    method: 'POST',
    path: `${path}/webhooks/${at(plain, turn + APART)}/secret/roll`,
    // Five signing secrets may be active at a time.
    body: '{"expireOld":true}',
    wanted: 200,
  }),
}

/** @param n counts from 0, for each kind @throws Error when it is not answered as it should be */
export async function sendOne(
  client: HttpClient,
  tenants: readonly Tenant[],
  { kind, n, draft }: { kind: RequestKind; n: number; draft: Draft },
): Promise<void> {
  const tenant = at(tenants, n)
  const asked = MAKERS[kind](tenant, Math.floor(n / tenants.length), draft)
  const { wanted, take, ...request } = asked
  const body = bodyOf(await client.send({ ...request, key: tenant.key }), wanted)
  take?.(body)
}

export function createRequest(path: string, draft: object): Question {
  return { method: 'POST', path: `${path}/webhooks`, body: JSON.stringify(draft), wanted: 201 }
}

export function endpointIdOf(created: unknown): string {
  return (created as { endpoint: { endpointId: string } }).endpoint.endpointId
}

function deliveryPath({ path, logged }: Tenant, turn: number): string {
  const { id, deliveries } = logged
  return `${path}/webhooks/${id}/deliveries/${at(deliveries, turn)}`
}

function get(path: string): Question {
  return { method: 'GET', path, wanted: 200 }
}

function post(path: string): Question {
  return { method: 'POST', path, wanted: 202 }
}

/** In turn. */
function at<T>(items: readonly T[], turn: number): T {
  const item = items[turn % items.length]
  if (item === undefined) throw new Error('there is nothing to ask for')
  return item
}
