/** Disabling and enabling by the owner (interface §2.3, §3.1, §6.6; settled, "Events and deliveries"). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { conditionOf } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'

const ENABLE = 'davit.dev/enable-requested-at'
const DISABLE = 'davit.dev/disable-requested-at'
const HOUR_MS = 3_600_000

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('state')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

type State = 'enabled' | 'disabled'

/** The two ways in which an owner asks for a state. */
const WAYS = [
  { way: 'spec', ask: (name: string, state: State) => davit.patchSpec(name, { state }) },
  {
    way: 'annotation',
    ask: async (name: string, state: State) => {
      davit.clock.jump(1)
      await davit.annotate(name, { [state === 'enabled' ? ENABLE : DISABLE]: davit.time() })
    },
  },
]

/** An endpoint with a type of its own. @returns the type */
async function endpoint(name: string, spec: Record<string, unknown> = {}): Promise<string> {
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type], ...spec })
  return type
}

function inState(name: string, state: State): Promise<WebhookEndpoint> {
  return davit.endpointWhen(name, ({ status }) => status?.state === state)
}

async function disable(name: string): Promise<void> {
  await davit.patchSpec(name, { state: 'disabled' })
  await inState(name, 'disabled')
}

async function enable(name: string): Promise<void> {
  await davit.patchSpec(name, { state: 'enabled' })
  await inState(name, 'enabled')
}

function numbersOf(requests: readonly ReceivedRequest[]): number[] {
  return requests.map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
}

function idsOf(requests: readonly ReceivedRequest[]): unknown[] {
  return requests.map(({ headers }) => headers['webhook-id'])
}

/** A promise that a test resolves by hand. */
function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {}
  const opened = new Promise<void>((resolve) => {
    open = resolve
  })
  return { opened, open }
}

describe.each(WAYS)('asked for by $way', ({ way, ask }) => {
  test('a pause in mid-retry lets nothing through; enabled again, the delivery goes on where it was', async () => {
    const name = `retry-${way}`
    const path = `/${name}`
    receiver.answer(path, { status: 500 }, { status: 500 }, { status: 500 }, { status: 200 })
    const type = await endpoint(name)
    const event = await davit.publish(type, { n: 0 })
    await driveToAttempt(davit, name, 2)
    await ask(name, 'disabled')
    const paused = await inState(name, 'disabled')
    expect(paused.status?.disabledReason).toBe('Requested')
    davit.clock.jump(24 * HOUR_MS)
    await passBy(davit, receiver)
    expect(receiver.received(path)).toHaveLength(2)
    expect((await davit.deliveries(name)).map(({ status }) => status)).toMatchObject([
      { state: 'retrying', attemptCount: 2 },
    ])
    await ask(name, 'enabled')
    await inState(name, 'enabled')
    await receiver.waitFor(3, { path })
    const [ended] = await driveToEnd(davit, name)
    expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 4 })
    expect(ended?.status?.attempts).toHaveLength(4)
    expect(new Set(idsOf(receiver.received(path)))).toEqual(new Set([event.status?.eventId]))
  })

  test('events that come during a pause make no delivery, neither then nor later', async () => {
    const name = `missed-${way}`
    const type = await endpoint(name)
    await ask(name, 'disabled')
    await inState(name, 'disabled')
    const missed = await davit.publish(type, { n: 1 })
    expect(missed.status).toMatchObject({ state: 'dispatched', deliveries: 0 })
    await ask(name, 'enabled')
    await inState(name, 'enabled')
    const taken = await davit.publish(type, { n: 2 })
    expect(taken.status?.deliveries).toBe(1)
    await receiver.waitFor(1, { path: `/${name}` })
    await passBy(davit, receiver)
    expect(numbersOf(receiver.received(`/${name}`))).toEqual([2])
    expect(await davit.deliveriesWhen(name, ({ length }) => length > 0)).toHaveLength(1)
  })

  test('status says since when and why, and nothing of it once the endpoint is enabled', async () => {
    const name = `shown-${way}`
    await endpoint(name)
    const before = davit.clock.now()
    await ask(name, 'disabled')
    const paused = await inState(name, 'disabled')
    expect(Date.parse(paused.status?.disabledAt ?? '')).toBeGreaterThanOrEqual(before)
    expect(paused.status?.updatedAt).toBe(paused.status?.disabledAt)
    expect(conditionOf(paused, 'Ready')).toMatchObject({ status: 'True', reason: 'Paused' })
    expect(conditionOf(paused, 'Delivering')).toMatchObject({ status: 'False', reason: 'Disabled' })
    expect(conditionOf(paused, 'Stalled')).toBeUndefined()
    await ask(name, 'enabled')
    const enabled = await inState(name, 'enabled')
    expect(enabled.status).not.toHaveProperty('disabledAt')
    expect(enabled.status).not.toHaveProperty('disabledReason')
    expect(conditionOf(enabled, 'Ready')).toMatchObject({ status: 'True', reason: 'Accepted' })
    expect(conditionOf(enabled, 'Delivering')).toMatchObject({ status: 'True', reason: 'Healthy' })
  })

  test('a pause by the owner changes neither the count nor since when it fails', async () => {
    const name = `streak-${way}`
    receiver.answer(`/${name}`, { status: 500 })
    const type = await endpoint(name, { ordered: true })
    for (const count of [1, 2]) {
      await davit.publish(type, {})
      await driveToEnd(davit, name, count)
    }
    const { status: failing } = await davit.endpointWhen(name, () => true)
    expect(failing).toMatchObject({ consecutiveFailures: 2, failingSince: expect.any(String) })
    await ask(name, 'disabled')
    const { status: paused } = await inState(name, 'disabled')
    await ask(name, 'enabled')
    const { status: enabled } = await inState(name, 'enabled')
    // And what is enabled already is enabled once more.
    await davit.annotate(name, { [ENABLE]: new Date(davit.clock.now() + 1).toISOString() })
    const again = new Date(davit.clock.now() + 2).toISOString()
    await davit.annotate(name, { [ENABLE]: again })
    const { status: twice } = await davit.endpointWhen(
      name,
      ({ status }) => status?.lastHandled?.enable === again,
    )
    for (const status of [paused, enabled, twice]) {
      expect(status?.consecutiveFailures).toBe(2)
      expect(status?.failingSince).toBe(failing?.failingSince)
    }
    expect(twice?.state).toBe('enabled')
  })
})

describe('what was held', () => {
  test('of an ordered endpoint goes on in its order, events during the pause left out', async () => {
    const path = '/ordered'
    receiver.answer(path, { status: 500 }, { status: 200 })
    const type = await endpoint('ordered', { ordered: true })
    for (let n = 0; n < 4; n += 1) await davit.publish(type, { n })
    await davit.deliveriesWhen('ordered', (all) => all.some(({ status }) => status?.state === 'retrying'))
    await disable('ordered')
    await davit.publish(type, { n: 99 })
    davit.clock.jump(HOUR_MS)
    await passBy(davit, receiver)
    expect(numbersOf(receiver.received(path))).toEqual([0])
    await enable('ordered')
    await davit.publish(type, { n: 4 })
    expect(numbersOf(await receiver.waitFor(6, { path }))).toEqual([0, 0, 1, 2, 3, 4])
  })

  test('stays held over a restart, and goes on after it', async () => {
    const path = '/restarted'
    receiver.answer(path, { status: 500 }, { status: 200 })
    const type = await endpoint('restarted')
    await davit.publish(type, { n: 0 })
    await driveToAttempt(davit, 'restarted', 1)
    await disable('restarted')
    await davit.restart()
    davit.clock.jump(HOUR_MS)
    await passBy(davit, receiver)
    expect(receiver.received(path)).toHaveLength(1)
    await enable('restarted')
    const [ended] = await driveToEnd(davit, 'restarted')
    expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 2 })
  })

  test('without one attempt is shown as pending', async () => {
    const name = 'untried'
    const path = `/${name}`
    const hold = gate()
    receiver.answer(path, { after: hold.opened }, { status: 200 })
    const type = await endpoint(name, { ordered: true })
    await davit.publish(type, { n: 0 })
    await receiver.waitFor(1, { path })
    await davit.publish(type, { n: 1 })
    await disable(name)
    hold.open()
    davit.clock.jump(3000)
    const waiting = await davit.deliveriesWhen(name, (all) =>
      all.some(({ status }) => status?.state === undefined || status.state === 'pending'),
    )
    expect(waiting.some(({ status }) => (status?.attemptCount ?? 0) === 0)).toBe(true)
    await passBy(davit, receiver)
    expect(numbersOf(receiver.received(path))).toEqual([0])
    await enable(name)
    expect(numbersOf(await receiver.waitFor(2, { path }))).toEqual([0, 1])
  })
})

describe('an attempt on the wire when its endpoint is disabled runs out and counts', () => {
  test('as the eighth failure, which exhausts the delivery', async () => {
    const path = '/wire-fails'
    const hold = gate()
    const fails = Array.from({ length: 7 }, () => ({ status: 500 }))
    receiver.answer(path, ...fails, { status: 500, after: hold.opened })
    const type = await endpoint('wire-fails', { ordered: true })
    await davit.publish(type, { n: 0 })
    await driveToAttempt(davit, 'wire-fails', 7)
    davit.clock.jump(180_000)
    await receiver.waitFor(8, { path })
    await disable('wire-fails')
    hold.open()
    const [ended] = await davit.deliveriesWhen('wire-fails', ([one]) => one?.status?.state === 'exhausted')
    expect(ended?.status?.attemptCount).toBe(8)
    const { status } = await davit.endpointWhen(
      'wire-fails',
      ({ status }) => status?.consecutiveFailures === 1,
    )
    expect(status).toMatchObject({ state: 'disabled', disabledReason: 'Requested' })
  })

  test('as a failure, after which the delivery is held with its attempts', async () => {
    const path = '/wire-retries'
    const hold = gate()
    receiver.answer(path, { status: 500, after: hold.opened }, { status: 200 })
    const type = await endpoint('wire-retries')
    await davit.publish(type, { n: 0 })
    await receiver.waitFor(1, { path })
    await disable('wire-retries')
    hold.open()
    await davit.deliveriesWhen('wire-retries', ([one]) => one?.status?.attemptCount === 1)
    davit.clock.jump(HOUR_MS)
    await passBy(davit, receiver)
    expect(receiver.received(path)).toHaveLength(1)
    await enable('wire-retries')
    await receiver.waitFor(2, { path })
  })

  test('as a success, which ends the streak', async () => {
    const path = '/wire-succeeds'
    const hold = gate()
    const fails = Array.from({ length: 8 }, () => ({ status: 500 }))
    receiver.answer(path, ...fails, { status: 200, after: hold.opened })
    const type = await endpoint('wire-succeeds', { ordered: true })
    await davit.publish(type, { n: 0 })
    await driveToEnd(davit, 'wire-succeeds')
    await davit.endpointWhen('wire-succeeds', ({ status }) => status?.consecutiveFailures === 1)
    await davit.publish(type, { n: 1 })
    await receiver.waitFor(9, { path })
    await disable('wire-succeeds')
    hold.open()
    const { status } = await davit.endpointWhen(
      'wire-succeeds',
      ({ status }) => status?.consecutiveFailures === 0,
    )
    expect(status).not.toHaveProperty('failingSince')
    expect(status?.state).toBe('disabled')
    await driveToEnd(davit, 'wire-succeeds', 2)
  })
})
