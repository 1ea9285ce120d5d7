import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver, verifyWebhook } from '../support/receiver.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('delivery')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

describe('an endpoint', () => {
  const name = 'plain'
  const path = `/${name}`

  test('an event published with kubectl arrives signed, with the body of Standard Webhooks', async () => {
    const { secret } = await davit.endpoint(name, { url: `${receiver.url}${path}` })
    const event = await davit.publish(
      'environment.started',
      '{"environmentId":"env_1","big":9007199254740993,"exact":1.0}',
    )
    const [request] = await receiver.waitFor(1, { path })
    // It may have been sent by the time that its acceptance is read.
    expect(event.status).toMatchObject({
      state: expect.stringMatching(/^(accepted|dispatched)$/),
      deliveries: expect.any(Number),
    })
    expect(request?.headers['webhook-id']).toBe(event.status?.eventId)
    expect(request?.body.toString()).toMatch(
      /^\{"type":"environment.started","timestamp":"[^"]+Z","data":\{"environmentId":"env_1","big":9007199254740993,"exact":1.0\}\}$/,
    )
    expect(request && verifyWebhook(request, secret)).toMatchObject({ type: 'environment.started' })
    await davit.eventWhen(event.metadata.name, ({ status }) => status?.state === 'dispatched')
  })

  test('a failed attempt is repeated under the same id, with the same bytes and a fresh stamp', async () => {
    const failing = `${path}-failing`
    receiver.answer(failing, { status: 503, body: 'overloaded' }, { status: 200 })
    const { secret } = await davit.endpoint(`${name}-failing`, {
      url: `${receiver.url}${failing}`,
      eventTypes: ['environment.stopped'],
    })
    await davit.publish('environment.stopped', { number: 1 })
    const [waiting] = await davit.deliveriesWhen(
      `${name}-failing`,
      ([delivery]) => delivery?.status?.state === 'retrying',
    )
    expect(waiting?.status).toMatchObject({
      attemptCount: 1,
      attempts: [{ code: 503, error: 'HTTP 503', response: 'overloaded' }],
    })
    davit.clock.jump(31_000)
    const [first, second] = await receiver.waitFor(2, { path: failing })
    expect(second?.headers['webhook-id']).toBe(first?.headers['webhook-id'])
    expect(second?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true)
    expect(Number(second?.headers['webhook-timestamp'])).toBeGreaterThan(
      Number(first?.headers['webhook-timestamp']) + 25,
    )
    const [ended] = await davit.deliveriesWhen(
      `${name}-failing`,
      ([delivery]) => delivery?.status?.state === 'succeeded',
    )
    expect(ended?.status?.attempts?.map(({ code }) => code)).toEqual([503, 200])
    expect(secret).toMatch(/^whsec_/)
  })
})
