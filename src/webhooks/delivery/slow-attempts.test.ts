import { describe, expect, it } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { VIEW_LABEL } from '../../apis/meta.ts'
import { type WebhookDelivery, webhookDeliveries } from '../../apis/webhook-delivery.ts'

/** By then, the object of a delivery without an outcome exists. */
const OBJECT_MS = 5000

const isRead = calling('get', webhookDeliveries)
const isWritten = calling('patch', webhookDeliveries)

/** An attempt that is still in progress when its delivery has an object. */
async function slowAttempt() {
  const bed = new EngineBed()
  const one = await bed.endpoint('one')
  bed.start()
  await bed.accept(bed.event([one]))
  await bed.elapse(OBJECT_MS)
  const [object] = bed.objects
  const [attempt] = bed.underWay
  if (!object || !attempt) throw new Error('there is no object, or no attempt')
  const { name, namespace = '' } = object.metadata
  bed.api.calls.length = 0
  return {
    bed,
    attempt,
    ref: { name, namespace },
    status: () => (bed.objects[0] as WebhookDelivery | undefined)?.status,
    count: (matches: typeof isRead) => bed.api.calls.filter(matches).length,
  }
}

describe('the outcome of an attempt that was in progress when its delivery got an object', () => {
  it.each([
    { code: 200, state: 'succeeded' },
    { code: 500, state: 'retrying' },
  ])('$code is written without reading the object', async ({ code, state }) => {
    const { bed, attempt, status, count } = await slowAttempt()
    attempt.end(code)
    await bed.elapse(100)
    expect(status()).toMatchObject({ state, attemptCount: 1 })
    expect([count(isRead), count(isWritten)]).toEqual([0, 1])
  })

  it('is written to an object that has changed since', async () => {
    const { bed, attempt, ref, status, count } = await slowAttempt()
    await bed.store.patch(webhookDeliveries, ref, {
      metadata: { annotations: { 'acme.example/seen': 'yes' } },
    })
    attempt.end(200)
    await bed.elapse(100)
    expect(status()).toMatchObject({ state: 'succeeded', attemptCount: 1 })
    expect([count(isRead), count(isWritten)]).toEqual([1, 2])
  })

  it('replaces no end that the object has', async () => {
    const { bed, attempt, ref, status } = await slowAttempt()
    const ended = { state: 'canceled', reason: 'EndpointDeleted', attemptCount: 0 }
    await bed.store.patch(webhookDeliveries, ref, { status: ended }, { subresource: 'status' })
    attempt.end(200)
    await bed.elapse(100)
    expect(status()).toMatchObject(ended)
    expect(bed.ended).toMatchObject([{ state: 'canceled' }])
  })

  it('is dropped if the object has been deleted', async () => {
    const { bed, attempt, ref } = await slowAttempt()
    await bed.store.delete(webhookDeliveries, ref)
    attempt.end(200)
    await bed.elapse(OBJECT_MS)
    expect(bed.objects).toEqual([])
    expect(bed.engine.stats().lanes).toBe(0)
  })

  it('is followed by a second attempt, whose outcome goes to the same object', async () => {
    const { bed, attempt, status } = await slowAttempt()
    attempt.end(500)
    await bed.elapse(60_000)
    bed.underWay[0]?.end(200)
    await bed.elapse(100)
    expect(status()).toMatchObject({ state: 'succeeded', attemptCount: 2 })
  })
})

describe('an endpoint whose responses take nearly as long as they may', () => {
  /** Attempts begin every three seconds, and so they succeed. */
  async function slowEndpoint() {
    const bed = new EngineBed()
    const one = await bed.endpoint('one', { concurrency: 30 })
    bed.sender.latencyMs = 19_000
    bed.sender.answers.set('/one', 200)
    bed.start()
    const events = async (count: number) => {
      for (let n = 0; n < count; n += 1) {
        await bed.accept(bed.event([one]))
        await bed.elapse(3000)
      }
    }
    return { bed, events }
  }

  it('gets no objects for what is in progress, as long as it accepts deliveries', async () => {
    const { bed, events } = await slowEndpoint()
    await events(10)
    // None was accepted yet when these began.
    const first = bed.objects.length
    expect(first).toBeGreaterThan(3)
    await events(10)
    expect(
      bed.objects.filter(({ metadata }) => !JSON.stringify(metadata.labels).includes(VIEW_LABEL)).length,
    ).toBeLessThan(first + 3)
  })

  it('gets an object for each as soon as it accepts none any more', async () => {
    const { bed, events } = await slowEndpoint()
    await events(10)
    await bed.elapse(60_000)
    bed.sender.answers.delete('/one')
    const before = bed.objects.length
    await events(3)
    await bed.elapse(20_000)
    expect(bed.objects.length - before).toBe(3)
  })
})
