/** Makes the organizations' endpoints and deliveries that requests of each kind are about, by REST as well. */
import { setTimeout as sleep } from 'node:timers/promises'
import { bodyOf, type HttpClient } from './http-client.ts'
import { createRequest, type Draft, endpointIdOf, type Question, type Tenant } from './request-kinds.ts'

/** Endpoints of each use, and deliveries of each endpoint that has some. */
const EACH = 8
const DELIVERIES = 50
const DELIVERED_LIMIT_MS = 60_000
const POLL_MS = 200

/** `delivered` is the type of the events that are published here, and never later. */
export type TenantPlan = Draft & { delivered: string }

/** @throws Error if a request is rejected, or deliveries do not end within a minute */
export async function makeTenant(
  client: HttpClient,
  { organization, key }: { organization: string; key: string },
  plan: TenantPlan,
): Promise<Tenant> {
  const path = `/organizations/${organization}`
  const ask = makeAsk(client, key)
  const create = async (more: object) =>
    endpointIdOf(await ask(createRequest(path, { url: plan.url, eventTypes: [plan.type], ...more })))
  const id = await create({ eventTypes: [plan.delivered] })
  const body = JSON.stringify({ type: plan.delivered, data: { text: 'x'.repeat(80) } })
  for (let n = 0; n < DELIVERIES; n += 1)
    await ask({ method: 'POST', path: `${path}/events`, body, wanted: 202 })
  return {
    path,
    key,
    logged: { id, deliveries: await untilDelivered(ask, `${path}/webhooks/${id}`) },
    plain: await several(() => create({})),
    paused: (await several(() => create({}))).map((id) => ({ id, disabled: false })),
    spare: await several(() => create({})),
  }
}

type Ask = (question: Question) => Promise<unknown>

function makeAsk(client: HttpClient, key: string): Ask {
  return async ({ wanted, ...request }) => bodyOf(await client.send({ ...request, key }), wanted)
}

async function several(make: () => Promise<string>): Promise<string[]> {
  const made: string[] = []
  while (made.length < EACH) made.push(await make())
  return made
}

async function untilDelivered(ask: Ask, endpoint: string): Promise<string[]> {
  const limit = performance.now() + DELIVERED_LIMIT_MS
  const path = `${endpoint}/deliveries?limit=200&status=succeeded`
  for (;;) {
    const page = await ask({ method: 'GET', path, wanted: 200 })
    const { deliveries } = page as { deliveries: { deliveryId: string }[] }
    if (deliveries.length >= DELIVERIES) return deliveries.map(({ deliveryId }) => deliveryId)
    if (performance.now() > limit) throw new Error(`only ${deliveries.length} deliveries have succeeded`)
    await sleep(POLL_MS)
  }
}
