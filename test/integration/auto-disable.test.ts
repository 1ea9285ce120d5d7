/** The streak of exhausted deliveries, and when it disables (interface §3.1; settled, "Events and deliveries"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ApiError } from '../../src/kube/client.ts'
import type { KubernetesClient } from '../../src/kube/resources.ts'
import { conditionOf } from '../support/conditions.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt } from '../support/drive.ts'
import {
  allEnded,
  disabledByFailures,
  exhaust,
  failingEndpoint,
  SHORT_WAITS,
  statusOf,
} from '../support/exhaust.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const PING = 'davit.dev/ping-requested-at'
const REDELIVER = 'davit.dev/redeliver-requested'
const DAY_MS = 86_400_000
const ANY_WAIT_MS = 20_000

let davit: TestDavit
let receiver: Receiver
/** Status writes that the API server rejects, by resource and status. */
let refuses: ((plural: string, status: Record<string, unknown>) => boolean) | undefined
let refusals = 0

beforeAll(async () => {
  receiver = await startReceiver()
  const env = { ...SHORT_WAITS, DAVIT_SHUTDOWN_TIMEOUT: '0s' }
  davit = await startDavit('auto-disable', { env, wrapApi: withRefusals })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

function withRefusals(api: KubernetesClient): KubernetesClient {
  return {
    ...api,
    patch: async (type, ref, patch, options) => {
      const { status } = patch as { status?: Record<string, unknown> }
      if (status && refuses?.(type.plural, status)) {
        refusals += 1
        throw new ApiError('Unavailable', 'not now')
      }
      return await api.patch(type, ref, patch, options)
    },
  }
}

/** Lets the eighth attempts begin, ends the process after a rejected write, and starts the next one. */
async function crashAt(refused: typeof refuses): Promise<void> {
  refusals = 0
  refuses = refused
  davit.clock.jump(ANY_WAIT_MS)
  await until(
    async () => (refusals > 0 ? true : undefined),
    () => 'nothing was refused',
  )
  await davit.controller.stop()
  refuses = undefined
  await davit.startController()
}

describe('both must hold: five exhausted deliveries in a row, and 24 hours since the first of them', () => {
  test('five within minutes do not disable, nor does time that passes; the next exhausted one does', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'brief')
    const brief = await exhaust(davit, endpoint, 5)
    expect(brief).toMatchObject({ state: 'enabled', consecutiveFailures: 5 })
    davit.clock.jump(3 * DAY_MS)
    await davit.annotate('brief', { unrelated: 'x' })
    await passBy(davit, receiver)
    expect(await statusOf(davit, 'brief')).toMatchObject({ state: 'enabled', consecutiveFailures: 5 })
    await davit.restart()
    await passBy(davit, receiver)
    expect(await statusOf(davit, 'brief')).toMatchObject({ state: 'enabled', consecutiveFailures: 5 })
    const before = davit.clock.now()
    await exhaust(davit, endpoint, 1)
    const status = await disabledByFailures(davit, 'brief')
    expect(status).toMatchObject({
      state: 'disabled',
      disabledReason: 'ConsecutiveFailures',
      consecutiveFailures: 6,
      failingSince: brief.failingSince,
      updatedAt: status.disabledAt,
    })
    expect(Date.parse(status.disabledAt ?? '')).toBeGreaterThanOrEqual(before)
  })

  test('four over more than 24 hours do not disable, the fifth does', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'slow')
    await exhaust(davit, endpoint, 2)
    davit.clock.jump(2 * DAY_MS)
    expect(await exhaust(davit, endpoint, 2)).toMatchObject({ state: 'enabled', consecutiveFailures: 4 })
    expect(await exhaust(davit, endpoint, 1)).toMatchObject({ state: 'disabled', consecutiveFailures: 5 })
  })

  test.each([
    { name: 'early', afterMs: -60_000, want: 'enabled' },
    { name: 'late', afterMs: 0, want: 'disabled' },
  ])('a fifth that is exhausted $afterMs ms after the 24 hours leaves it $want', async (given) => {
    const endpoint = await failingEndpoint(davit, receiver, given.name)
    const { failingSince = '' } = await exhaust(davit, endpoint, 4)
    await davit.publish(endpoint.type, {})
    await driveToAttempt(davit, given.name, 7, 5)
    davit.clock.jump(Date.parse(failingSince) + DAY_MS + given.afterMs - davit.clock.now())
    await allEnded(davit, given.name, 5)
    expect(await statusOf(davit, given.name)).toMatchObject({ state: given.want, consecutiveFailures: 5 })
  })

  test('the streak begins with the first exhausted delivery, not with its attempts', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'begins')
    await davit.publish(endpoint.type, {})
    await driveToAttempt(davit, 'begins', 7)
    const failed = await statusOf(davit, 'begins')
    expect(failed.consecutiveFailures).toBe(0)
    expect(failed).not.toHaveProperty('failingSince')
    await allEnded(davit, 'begins', 1)
    const [delivery] = await davit.deliveries('begins')
    const { consecutiveFailures, failingSince = '' } = await statusOf(davit, 'begins')
    expect(consecutiveFailures).toBe(1)
    const last = delivery?.status?.attempts?.at(-1)?.at ?? ''
    expect(Date.parse(failingSince)).toBeGreaterThanOrEqual(Date.parse(last))
  })
})

describe('what counts', () => {
  test('pings and redeliveries that are exhausted, like any other', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'counted')
    await exhaust(davit, endpoint, 1)
    const [one] = await davit.deliveries('counted')
    await davit.annotate('counted', { [PING]: davit.time() })
    await allEnded(davit, 'counted', 2)
    expect(await statusOf(davit, 'counted')).toMatchObject({ consecutiveFailures: 2 })
    await davit.annotate('counted', { [REDELIVER]: `${one?.spec.deliveryId}@${davit.time()}` })
    await allEnded(davit, 'counted', 3)
    expect(await statusOf(davit, 'counted')).toMatchObject({ consecutiveFailures: 3 })
  })

  test('not a delivery whose eighth attempt succeeds', async () => {
    const { name, path, type } = await failingEndpoint(davit, receiver, 'uncounted')
    receiver.answer(path, ...Array.from({ length: 7 }, () => ({ status: 500 })), { status: 200 })
    await davit.publish(type, {})
    await allEnded(davit, name, 1)
    const [ended] = await davit.deliveries(name)
    expect(ended?.status).toMatchObject({ state: 'succeeded', attemptCount: 8 })
    const status = await statusOf(davit, name)
    expect(status.consecutiveFailures).toBe(0)
    expect(status).not.toHaveProperty('failingSince')
  })

  test.each(['event', 'ping', 'redelivery'])(
    'from the start again after a success of kind %s',
    async (kind) => {
      const name = `reset-${kind}`
      const endpoint = await failingEndpoint(davit, receiver, name)
      await exhaust(davit, endpoint, 4)
      davit.clock.jump(DAY_MS)
      receiver.answer(endpoint.path, { status: 200 })
      const [one] = await davit.deliveries(name)
      const again = `${one?.spec.deliveryId}@${davit.time()}`
      if (kind === 'event') await davit.publish(endpoint.type, {})
      else await davit.annotate(name, kind === 'ping' ? { [PING]: davit.time() } : { [REDELIVER]: again })
      const healed = await davit.endpointWhen(name, (object) => {
        return conditionOf(object, 'Delivering')?.status === 'True'
      })
      expect(healed.status?.consecutiveFailures).toBe(0)
      expect(healed.status).not.toHaveProperty('failingSince')
      await allEnded(davit, name, 5)
      receiver.answer(endpoint.path, { status: 500 })
      const before = davit.clock.now()
      const status = await exhaust(davit, endpoint, 1)
      expect(status).toMatchObject({ state: 'enabled', consecutiveFailures: 1 })
      expect(Date.parse(status.failingSince ?? '')).toBeGreaterThanOrEqual(before)
    },
  )
})

describe('each delivery counts once across a restart', () => {
  test('when the process ends between the count and the end of the delivery', async () => {
    const { name, path, type } = await failingEndpoint(davit, receiver, 'crash-between')
    await davit.publish(type, {})
    await driveToAttempt(davit, name, 7)
    await crashAt((plural, { state }) => plural === 'webhookdeliveries' && state === 'exhausted')
    const [ended] = await davit.deliveriesWhen(name, ([one]) => one?.status?.state === 'exhausted')
    expect(ended?.status?.attemptCount).toBe(8)
    await passBy(davit, receiver)
    expect(await statusOf(davit, name)).toMatchObject({ consecutiveFailures: 1 })
    expect(receiver.received(path)).toHaveLength(8)
  })

  test('when the process ends before the count', async () => {
    const { name, type } = await failingEndpoint(davit, receiver, 'crash-before')
    await davit.publish(type, {})
    await driveToAttempt(davit, name, 7)
    await crashAt((plural, { lastCounted }) => plural === 'webhookendpoints' && lastCounted !== undefined)
    await allEnded(davit, name, 1)
    expect(await statusOf(davit, name)).toMatchObject({ consecutiveFailures: 1 })
  })

  test('when the process ends with several of them exhausted at once', async () => {
    const { name, type } = await failingEndpoint(davit, receiver, 'crash-several')
    for (let n = 0; n < 4; n += 1) await davit.publish(type, { n })
    await driveToAttempt(davit, name, 7, 4)
    await crashAt((plural, { state }) => plural === 'webhookdeliveries' && state === 'exhausted')
    await allEnded(davit, name, 4)
    expect(await statusOf(davit, name)).toMatchObject({ consecutiveFailures: 4 })
  })

  test('and the streak goes on where it was', async () => {
    const endpoint = await failingEndpoint(davit, receiver, 'crash-streak')
    const before = await exhaust(davit, endpoint, 4)
    await davit.restart()
    davit.clock.jump(DAY_MS)
    expect(await exhaust(davit, endpoint, 1)).toMatchObject({
      state: 'disabled',
      consecutiveFailures: 5,
      failingSince: before.failingSince,
    })
  })
})
