/** Disabling and enabling by annotation (settled, "REST shapes", "Events and deliveries"). */
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'

const ENABLE = 'davit.dev/enable-requested-at'
const DISABLE = 'davit.dev/disable-requested-at'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('state-requests')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** An endpoint with a type of its own. @returns the type */
async function endpoint(name: string, spec: Record<string, unknown> = {}): Promise<string> {
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type], ...spec })
  return type
}

function inState(name: string, state: 'enabled' | 'disabled'): Promise<WebhookEndpoint> {
  return davit.endpointWhen(name, ({ status }) => status?.state === state)
}

test.each([
  { spec: 'enabled', asked: 'disabled', annotation: DISABLE },
  { spec: 'disabled', asked: 'enabled', annotation: ENABLE },
] as const)(
  'a request to be $asked holds against a spec that says $spec, until that changes',
  async (given) => {
    const name = `override-${given.asked}`
    const type = await endpoint(name, { state: given.spec })
    const deliveries = async () => (await davit.publish(type, {})).status?.deliveries
    await davit.annotate(name, { [given.annotation]: davit.time() })
    const { status, metadata } = await inState(name, given.asked)
    expect(status?.override).toEqual({ state: given.asked, generation: metadata.generation })
    expect(await deliveries()).toBe(given.asked === 'enabled' ? 1 : 0)
    await davit.restart()
    await davit.annotate(name, { unrelated: 'x' })
    await passBy(davit, receiver)
    expect(await deliveries()).toBe(given.asked === 'enabled' ? 1 : 0)
    await davit.patchSpec(name, { description: 'changed' })
    const after = await inState(name, given.spec)
    expect(after.status).not.toHaveProperty('override')
    expect(await deliveries()).toBe(given.spec === 'enabled' ? 1 : 0)
  },
)

test.each([
  { wins: 'disabled', enableAfterMs: -1000 },
  { wins: 'enabled', enableAfterMs: 1000 },
  { wins: 'disabled', enableAfterMs: 0 },
] as const)(
  'of two requests that come together the later one wins, of two of the same time the pause: enabling $enableAfterMs ms later gives $wins',
  async ({ wins, enableAfterMs }) => {
    const name = `both${enableAfterMs}`
    const other = wins === 'enabled' ? 'disabled' : 'enabled'
    await endpoint(name, { state: other })
    davit.clock.jump(5000)
    const at = davit.clock.now()
    const [enableAt, disableAt] = [new Date(at + enableAfterMs).toISOString(), new Date(at).toISOString()]
    await davit.annotate(name, { [ENABLE]: enableAt, [DISABLE]: disableAt })
    const { status } = await inState(name, wins)
    expect(status?.lastHandled).toMatchObject({ enable: enableAt, disable: disableAt })
  },
)

test('a request is acted on once per value: not again when the spec has changed since, nor after a restart', async () => {
  await endpoint('once')
  const value = davit.time()
  await davit.annotate('once', { [DISABLE]: value })
  await inState('once', 'disabled')
  await davit.patchSpec('once', { description: 'changed' })
  await inState('once', 'enabled')
  await davit.restart()
  await davit.annotate('once', { unrelated: 'x', [DISABLE]: value })
  await passBy(davit, receiver)
  const { status } = await davit.endpointWhen('once', () => true)
  expect(status?.state).toBe('enabled')
})

test.each(['soon', '2020-01-01T00:00:00Z'])(
  'a request changes nothing where its value is %s',
  async (value) => {
    const name = `nothing-${value.length}`
    await endpoint(name)
    await davit.annotate(name, { [DISABLE]: value })
    const { status } = await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.disable === value)
    expect(status?.state).toBe('enabled')
    if (value === 'soon') await davit.eventSeen(name, 'InvalidRequest')
  },
)
