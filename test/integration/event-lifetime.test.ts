/** What becomes of WebhookEvents when there is nothing left to do for them. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { webhookEvents } from '../../src/apis/webhook-event.ts'
import { isApiError } from '../../src/kube/client.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToEnd } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('event-lifetime')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

async function isGone(name: string): Promise<boolean> {
  try {
    await davit.api.get(webhookEvents, { namespace: davit.organization, name })
    return false
  } catch (error) {
    if (isApiError(error, 'NotFound')) return true
    throw error
  }
}

test('objects stay for good without a time to live', async () => {
  const event = await davit.publish(await ownEventType(davit), {})
  davit.clock.jump(400 * 24 * 3_600_000)
  await passBy(davit, receiver)
  expect(await isGone(event.metadata.name)).toBe(false)
})

test('objects with a time to live go so long after they were dispatched or refused, and no sooner', async () => {
  const dispatched = await davit.publish(await ownEventType(davit), {}, { ttlSecondsAfterFinished: 3600 })
  const refused = await davit.publish('no.such-type', {}, { ttlSecondsAfterFinished: 3600 })
  // A later rejected event must not reset the time of the others.
  await davit.publish('no.such-type', {})
  const names = [dispatched.metadata.name, refused.metadata.name]
  davit.clock.jump(3_590_000)
  await passBy(davit, receiver)
  expect(await Promise.all(names.map(isGone))).toEqual([false, false])
  davit.clock.jump(20_000)
  for (const name of names) {
    await until(
      async () => ((await isGone(name)) ? true : undefined),
      () => `${name} is still there`,
    )
  }
})

test('objects that wait for their deliveries outlive their time to live', async () => {
  const type = await ownEventType(davit)
  receiver.answer('/outlives', { status: 500 }, {})
  await davit.endpoint('outlives', {
    url: `${receiver.url}/outlives`,
    eventTypes: [type],
    state: 'enabled',
  })
  const event = await davit.publish(type, {}, { ttlSecondsAfterFinished: 0 })
  await davit.deliveriesWhen('outlives', ([delivery]) => delivery?.status?.state === 'retrying')
  await passBy(davit, receiver)
  expect(await isGone(event.metadata.name)).toBe(false)
  await driveToEnd(davit, 'outlives')
  await until(
    async () => ((await isGone(event.metadata.name)) ? true : undefined),
    () => 'it is still there',
  )
})
