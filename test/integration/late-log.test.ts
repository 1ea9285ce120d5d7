/** The watch of the log is hours behind: no delivery is reported as ended before it has begun. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { lateWatches } from '../support/late-watches.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const HOUR_MS = 3_600_000
const LATE_MS = 3000

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('late-log', {
    wrapApi: (api) => lateWatches(api, deliverySegments, () => LATE_MS),
  })
  await davit.endpoint('only', { url: `${receiver.url}/only` })
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

test('an event is dispatched when its delivery has ended, though the log is shown long after the append', async () => {
  const event = await davit.publish('environment.started', {})
  expect(event.status?.state).toBe('accepted')
  const ref = { namespace: davit.organization, name: event.metadata.name }
  const states = new Set<string>()
  await until(
    async () => {
      const { status } = webhookEvent.parse(await davit.api.get(webhookEvents, ref))
      const isSent = receiver.received('/only').length > 0
      if (!isSent) states.add(String(status?.state))
      davit.clock.jump(HOUR_MS)
      return isSent && status?.state === 'dispatched' ? true : undefined
    },
    () => `it is ${[...states]}, and was sent ${receiver.received('/only').length} times`,
  )
  expect([...states]).toEqual(['accepted'])
})
