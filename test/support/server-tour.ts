/**
 * Everything that a REST server can do in the cluster, once over REST: each route, repeats with an idempotency key, and a create
 * that the cluster rejects.
 */
import { boxTemplates } from '../../src/apis/box-template.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import type { Installation, ServerProcess } from './installation.ts'
import { forbidMore } from './object-quota.ts'
import { ask } from './server-bed.ts'
import { templateObject } from './template-object.ts'
import { until } from './until.ts'

export type TourOptions = {
  davit: Installation
  server: ServerProcess
  receiverUrl: string
  /** An organization, and tokens of its owner, viewer and publisher. */
  organization: string
  keys: { owner: string; viewer: string; publisher: string }
  /** Another organization of the same owner, for which the cluster accepts no endpoint. */
  fullOrganization: string
}

type Call = { key?: string; body?: unknown; idempotencyKey?: string }
type Answer = Awaited<ReturnType<typeof ask>>

const TYPE = 'environment.started'

export async function tourServer(options: TourOptions): Promise<void> {
  const { organization, keys, receiverUrl } = options
  const call = callerOf(options)
  const home = `/organizations/${organization}`
  const create = (name: string) =>
    call(201, 'POST', `${home}/webhooks`, {
      body: { url: `${receiverUrl}/${name}`, eventTypes: [TYPE] },
      idempotencyKey: name,
    })
  await untilLetIn({ ...options, owner: keys.owner })
  await call(200, 'GET', `${home}/webhooks/event-types`)
  const [first, second] = await Promise.all([create('first'), create('second')])
  const [one, other] = [first.location, second.location]
  await create('first')
  await call(200, 'GET', `${home}/webhooks`)
  await call(200, 'GET', one)
  await call(200, 'PATCH', one, { body: { description: 'Changed' } })
  const event = await call(202, 'POST', `${home}/events`, {
    body: { type: TYPE, data: {} },
    key: keys.publisher,
    idempotencyKey: 'event',
  })
  for (const time of [1, 2])
    await call(202, 'POST', `${home}/events/batch`, {
      body: { events: [time, time].map(() => ({ type: TYPE, data: {} })) },
      key: keys.publisher,
      idempotencyKey: 'batch',
    })
  await call(200, 'GET', `${home}/events/${event.json.eventId}`)
  await call(200, 'GET', `${home}/events?include=payload`)
  await call(200, 'GET', `${home}/stream`)
  await call(200, 'GET', `${home}/deliveries`)
  await call(403, 'GET', `${home}/webhooks`, { key: keys.viewer })
  for (const path of [one, other]) {
    const delivery = `${path}/deliveries/${event.json.eventId}`
    await untilSucceeded(call, delivery)
    await call(200, 'GET', `${path}/deliveries`)
    await call(202, 'POST', `${delivery}/redeliver`)
    await call(202, 'POST', `${path}/ping`)
    await call(200, 'POST', `${path}/secret/roll`)
    await call(200, 'GET', `${path}/secret`)
  }
  await call(204, 'DELETE', other)
  await createInVain(options, call)
  await tourSecrets(options, call)
}

/** Box templates, credentials that need no account and, in the other organization, settings that never connect. */
async function tourSecrets(
  { davit, organization, fullOrganization }: TourOptions,
  call: Caller,
): Promise<void> {
  const home = `/organizations/${organization}`
  const settings = `/organizations/${fullOrganization}/secrets-settings`
  await call(200, 'GET', settings)
  for (const region of ['eu-west-1', 'eu-west-2']) await call(200, 'PUT', settings, { body: { region } })
  const registry = '123456789012.dkr.ecr.eu-west-1.amazonaws.com'
  const body = { type: 'ecr', label: 'Ours', registry }
  const { location: path } = await call(201, 'POST', `${home}/registry-credentials`, { body })
  await call(200, 'GET', `${home}/registry-credentials`)
  await call(200, 'GET', path)
  await call(200, 'PATCH', path, { body: { label: 'Still ours' } })
  await call(204, 'DELETE', path)
  const template = templateObject(organization, 'shop')
  await davit.api.create(boxTemplates, template)
  await call(200, 'GET', `${home}/box-templates`)
  await call(200, 'GET', `${home}/box-templates/${template.metadata.name}`)
  const token = { ...body, type: 'token', registry: 'ghcr.io', username: 'bot', secret: 'any' }
  await call(409, 'POST', `${home}/registry-credentials`, { body: token })
}

/** The rights of a new role take effect after a moment. */
export async function untilLetIn(of: {
  server: ServerProcess
  organization: string
  owner: string
}): Promise<void> {
  let last = 0
  await until(
    async () => {
      const answer = await ask(of.server, `/organizations/${of.organization}/webhooks`, { key: of.owner })
      last = answer.status
      return last === 200 || undefined
    },
    () => `the owner is answered ${last}`,
  )
}

type Caller = ReturnType<typeof callerOf>

function callerOf({ server, keys }: TourOptions) {
  return async (want: number, method: string, path: string, call: Call = {}): Promise<Answer> => {
    const { key = keys.owner, body, idempotencyKey } = call
    const answer = await ask(server, path, {
      method,
      key,
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(idempotencyKey === undefined ? {} : { headers: { 'idempotency-key': idempotencyKey } }),
    })
    if (answer.status !== want) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`)
    return answer
  }
}

async function untilSucceeded(call: Caller, path: string): Promise<void> {
  let last: unknown
  await until(
    async () => {
      last = (await call(200, 'GET', path)).json.delivery
      return (last as { status: string }).status === 'succeeded' || undefined
    },
    () => `the delivery is ${JSON.stringify(last)}`,
  )
}

/** Its signing secret is written first, and removed again. */
async function createInVain(
  { davit, fullOrganization, receiverUrl }: TourOptions,
  call: Caller,
): Promise<void> {
  const spec = { url: `${receiverUrl}/none`, eventTypes: [TYPE] }
  const metadata = { name: 'probe', namespace: fullOrganization }
  const probe = { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata, spec }
  await forbidMore(davit.api, webhookEndpoints, probe, davit.controlPlane.access)
  await call(409, 'POST', `/organizations/${fullOrganization}/webhooks`, { body: spec })
}
