/**
 * Endpoints that fail, and deliveries that are exhausted within moments. The controller must run with `SHORT_WAITS`: streaks take
 * days, and the waits between attempts are not the subject of these tests.
 */
import type { WebhookEndpointStatus } from '../../src/apis/webhook-endpoint.ts'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import type { TestDavit } from './davit.ts'
import { ownEventType } from './own-event-type.ts'
import type { Receiver } from './receiver.ts'

export const SHORT_WAITS = { DAVIT_WAIT_SCALE: '0.001' }
/** Longer than any wait between attempts on that scale. */
const ANY_WAIT_MS = 20_000
const DAY_MS = 86_400_000

export type FailingEndpoint = { name: string; path: string; type: string; secret: string }

/** An endpoint with its own event type, whose receiver answers 500 until it is changed. */
export async function failingEndpoint(
  davit: TestDavit,
  receiver: Receiver,
  name: string,
  spec: { eventTypes?: string[]; concurrency?: number } = {},
): Promise<FailingEndpoint> {
  const path = `/${name}`
  receiver.answer(path, { status: 500 })
  const type = await ownEventType(davit)
  const eventTypes = [type, ...(spec.eventTypes ?? [])]
  const { secret } = await davit.endpoint(name, { url: receiver.url + path, ...spec, eventTypes })
  return { name, path, type, secret }
}

/** Advances time until all deliveries of an endpoint have ended, and there are `count` of them. */
export async function allEnded(davit: TestDavit, name: string, count: number): Promise<void> {
  await davit.deliveriesWhen(name, (all) => {
    if (all.length >= count && all.every(({ status }) => isFinal(status?.state))) return true
    davit.clock.jump(ANY_WAIT_MS)
    return false
  })
}

/** Exhausts this many more deliveries. @returns the status of the endpoint after them */
export async function exhaust(
  davit: TestDavit,
  { name, type }: FailingEndpoint,
  more: number,
): Promise<WebhookEndpointStatus> {
  const before = (await davit.deliveries(name)).length
  for (let n = 0; n < more; n += 1) await davit.publish(type, { n })
  await allEnded(davit, name, before + more)
  return await statusOf(davit, name)
}

/** Exhausts four deliveries, and a day later the fifth. @returns the final status */
export async function disableByFailures(
  davit: TestDavit,
  endpoint: FailingEndpoint,
): Promise<WebhookEndpointStatus> {
  await exhaust(davit, endpoint, 4)
  davit.clock.jump(DAY_MS)
  await exhaust(davit, endpoint, 1)
  return await disabledByFailures(davit, endpoint.name)
}

/** The status of an endpoint after it is disabled automatically and the owners are notified. */
export async function disabledByFailures(davit: TestDavit, name: string): Promise<WebhookEndpointStatus> {
  const { status } = await davit.endpointWhen(
    name,
    ({ status }) => status?.announcedAt !== undefined && status.announcedAt === status.disabledAt,
  )
  return present(status)
}

export async function statusOf(davit: TestDavit, name: string): Promise<WebhookEndpointStatus> {
  const { status } = await davit.endpointWhen(name, ({ status }) => status !== undefined)
  return present(status)
}

function present(status: WebhookEndpointStatus | undefined): WebhookEndpointStatus {
  if (!status) throw new Error('the endpoint has no status')
  return status
}
