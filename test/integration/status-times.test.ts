/** When the times in an endpoint's status move (settled, "REST shapes"; what kstatus expects of conditions). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WebhookEndpoint } from '../../src/apis/webhook-endpoint.ts'
import { hasCondition } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { disableByFailures, exhaust, failingEndpoint, SHORT_WAITS, statusOf } from '../support/exhaust.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('status-times', { env: SHORT_WAITS })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function inForce(name: string): Promise<WebhookEndpoint> {
  return davit.endpointWhen(
    name,
    ({ status, metadata }) =>
      status?.conditions !== undefined && status.observedGeneration === metadata.generation,
  )
}

function timesOf({ status }: WebhookEndpoint): Record<string, string> {
  return Object.fromEntries(
    (status?.conditions ?? []).map(({ type, lastTransitionTime }) => [type, lastTransitionTime]),
  )
}

test('lastTransitionTime moves when the status of its condition changes, and with nothing else', async () => {
  const missing = `${await ownEventType(davit)}.missing`
  await davit.endpoint('times', { url: `${receiver.url}/times` })
  const first = await inForce('times')
  davit.clock.jump(10_000)
  await davit.patchSpec('times', { description: 'changed' })
  const described = await inForce('times')
  expect(timesOf(described)).toEqual(timesOf(first))
  for (const condition of described.status?.conditions ?? [])
    expect(condition.observedGeneration).toBe(described.metadata.generation)
  davit.clock.jump(10_000)
  await davit.patchSpec('times', { eventTypes: [missing] })
  const stalled = timesOf(await inForce('times'))
  const { Ready, Stalled, ...others } = stalled
  expect(timesOf(first)).toMatchObject(others)
  expect(timesOf(first)).not.toHaveProperty('Stalled')
  for (const time of [Ready, Stalled])
    expect(Date.parse(time ?? '') - Date.parse(timesOf(first).Ready ?? '')).toBeGreaterThanOrEqual(20_000)
  davit.clock.jump(10_000)
  // Another reason, the same status.
  await davit.patchSpec('times', { url: 'https://10.0.0.1/' })
  expect(timesOf(await inForce('times'))).toEqual(stalled)
})

describe('updatedAt', () => {
  /** @returns whether it moved to the current time of the clock, or stayed */
  async function change(name: string, act: () => Promise<unknown>): Promise<'moved' | 'stayed'> {
    const before = (await statusOf(davit, name)).updatedAt
    expect(before).toBeDefined()
    davit.clock.jump(60_000)
    const at = davit.clock.now()
    await act()
    const now = (await statusOf(davit, name)).updatedAt
    if (now === before) return 'stayed'
    expect(Date.parse(now ?? '')).toBeGreaterThanOrEqual(at)
    return 'moved'
  }
  const handled =
    (name: string, request: string, key: 'ping' | 'rotate' | 'disable' | 'enable') => async () => {
      const value = davit.time()
      await davit.annotate(name, { [`davit.dev/${request}-requested-at`]: value })
      await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.[key] === value)
    }

  test('moves with the spec, the state and a roll', async () => {
    await davit.endpoint('moves', { url: `${receiver.url}/moves` })
    const patch = (spec: Record<string, unknown>) => async () => {
      await davit.patchSpec('moves', spec)
      await inForce('moves')
    }
    const moves = {
      description: await change('moves', patch({ description: 'changed' })),
      disabled: await change('moves', patch({ state: 'disabled' })),
      enabled: await change('moves', patch({ state: 'enabled' })),
      pause: await change('moves', handled('moves', 'disable', 'disable')),
      resume: await change('moves', handled('moves', 'enable', 'enable')),
      roll: await change('moves', handled('moves', 'rotate', 'rotate')),
    }
    expect(new Set(Object.values(moves)), JSON.stringify(moves)).toEqual(new Set(['moved']))
  })

  test('moves when an endpoint is disabled automatically', async () => {
    const failing = await failingEndpoint(davit, receiver, 'moves-auto')
    expect(await change('moves-auto', () => disableByFailures(davit, failing))).toBe('moved')
  })

  test('stays with a ping, a request for what is so already, a counter, the end of a key and a restart', async () => {
    const failing = await failingEndpoint(davit, receiver, 'stays')
    expect(await change('stays', handled('stays', 'enable', 'enable'))).toBe('stayed')
    expect(await change('stays', () => exhaust(davit, failing, 1))).toBe('stayed')
    receiver.answer('/stays', {})
    const succeed = async () => {
      await davit.publish(failing.type, {})
      await davit.endpointWhen('stays', (endpoint) =>
        hasCondition(endpoint, 'Delivering', { status: 'True' }),
      )
    }
    expect(await change('stays', succeed)).toBe('stayed')
    expect(await change('stays', handled('stays', 'ping', 'ping'))).toBe('stayed')
    await handled('stays', 'rotate', 'rotate')()
    const keyEnds = async () => {
      davit.clock.jump(86_400_000)
      await davit.endpointWhen('stays', ({ status }) => status?.signingSecrets?.length === 1)
    }
    expect(await change('stays', keyEnds)).toBe('stayed')
    const restart = async () => {
      await davit.restart()
      await until(
        async () => (davit.controller.webhooks.endpointLoop.depth === 0 ? true : undefined),
        () => 'endpoints wait for a pass',
      )
    }
    expect(await change('stays', restart)).toBe('stayed')
  })
})
