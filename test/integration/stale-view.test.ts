/** A watch that is behind what Davit itself has written: what it knows by its own writes holds. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import { type ApiFront, type FrontRequest, type HeldWatches, startApiFront } from '../support/api-front.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { disabledByFailures, exhaust, failingEndpoint, SHORT_WAITS } from '../support/exhaust.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { signersOf } from '../support/signers.ts'

const DAY_MS = 86_400_000

let front: ApiFront
let davit: TestDavit
let receiver: Receiver
let held: HeldWatches | undefined

beforeAll(async () => {
  receiver = await startReceiver()
  const access = inject('adminAccess')
  front = await startApiFront(access)
  const cluster = { access, kubeconfigPath: front.kubeconfigPath }
  davit = await startDavit('stale-view', { cluster, env: SHORT_WAITS })
})

afterAll(async () => {
  held?.release()
  await davit?.stop()
  await front?.stop()
  await receiver?.close()
})

const of = (plural: string) => (request: FrontRequest) => request.path.endsWith(`/${plural}`)
const isAppend = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/deliverysegments')

/** The newest version of each watch of the kind is older than Davit's writes from here on. */
function holdBack(plural: string): void {
  held = front.holdWatches(of(plural))
}

/** Whether so many requests to a path come, and no more, before whatever is on the way has arrived. */
async function receivedOnly(path: string, count: number): Promise<void> {
  await passBy(davit, receiver)
  expect(receiver.received(path)).toHaveLength(count)
}

test('an endpoint that Davit has disabled gets nothing, before the watch says so and while it catches up', async () => {
  const endpoint = await failingEndpoint(davit, receiver, 'disabled')
  await exhaust(davit, endpoint, 4)
  davit.clock.jump(DAY_MS)
  // Known before the watch of endpoints is behind.
  await passBy(davit, receiver)
  holdBack('webhookendpoints')
  await davit.annotate('disabled', { unseen: 'older than what Davit writes next' })
  await exhaust(davit, endpoint, 1)
  await disabledByFailures(davit, 'disabled')
  const sent = receiver.received('/disabled').length
  const { status } = await davit.publish(endpoint.type, {})
  expect(status).toMatchObject({ state: 'dispatched', deliveries: 0 })
  held?.release()
  await davit.endpoint('witness', { url: `${receiver.url}/witness`, eventTypes: [endpoint.type] })
  await davit.publish(endpoint.type, {})
  await receiver.waitFor(1, { path: '/witness' })
  expect(receiver.received('/disabled')).toHaveLength(sent)
})

test('what Davit has rolled signs the next attempt, before the watch shows the new key', async () => {
  const type = await ownEventType(davit)
  const { secret: old } = await davit.endpoint('rolled', {
    url: `${receiver.url}/rolled`,
    eventTypes: [type],
  })
  holdBack('secrets')
  const value = `${davit.time()};expire-old`
  await davit.annotate('rolled', { 'davit.dev/rotate-requested-at': value })
  await davit.endpointWhen('rolled', ({ status }) => status?.lastHandled?.rotate === value)
  await davit.publish(type, {})
  const [request] = await receiver.waitFor(1, { path: '/rolled' })
  held?.release()
  const [fresh = ''] = davit.secrets('rolled')
  expect(fresh).not.toBe(old)
  expect(request && signersOf(request, [fresh, old])).toEqual([0])
})

test('an event that Davit has accepted is not accepted again when the watch shows it as it was before', async () => {
  const type = await ownEventType(davit)
  await davit.endpoint('once', { url: `${receiver.url}/once`, eventTypes: [type] })
  const ref = { namespace: davit.organization, name: 'once' }
  // The event is labeled while Davit accepts it: a version without a status, older than the one with it.
  front.before(isAppend, async () => {
    holdBack('webhookevents')
    await davit.api.patch(webhookEvents, ref, { metadata: { labels: { seen: 'late' } } })
  })
  await davit.api.create(webhookEvents, {
    apiVersion: API_VERSION,
    kind: 'WebhookEvent',
    metadata: ref,
    spec: { type, dataText: '{}' },
  })
  await receiver.waitFor(1, { path: '/once' })
  await driveToEnd(davit, 'once')
  davit.clock.jump(2000)
  const before = await davit.eventWhen('once', ({ status }) => status?.state === 'dispatched')
  const appends = () => front.requests.filter(isAppend).length
  const appended = appends()
  held?.step()
  await receivedOnly('/once', 1)
  // The ping that has passed by is one.
  expect(appends()).toBe(appended + 1)
  const { items } = await davit.api.list(deliverySegments, { namespace: davit.namespace })
  const name = before.status?.eventId?.replace('msg_', '') ?? 'none'
  expect(items.filter((raw) => JSON.stringify(raw).includes(name))).toHaveLength(1)
  const after = webhookEvent.parse(await davit.api.get(webhookEvents, ref))
  expect(after.status).toEqual(before.status)
})
