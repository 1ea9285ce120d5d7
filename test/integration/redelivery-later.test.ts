/** Delivering again what was given up the day before: retention has been at work, and the process has died twice since. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { driveToEnd } from '../support/drive.ts'
import { type MortalDavit, startMortalDavit } from '../support/mortal-davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const HOUR = 3_600_000
const LIMIT_MS = 120_000
const TEXT = '{"big":9007199254740993,"z":1.0,"a":"ä€😀"}'
/** The first is in the object of the delivery, the second in a segment of the log. */
const BODIES = { small: TEXT, large: `{"text":${TEXT},"fill":"${'ł'.repeat(50 * 1024)}"}` }

let receiver: Receiver
let mortal: MortalDavit

beforeAll(async () => {
  receiver = await startReceiver()
  mortal = await startMortalDavit('redelivery-later')
})

afterAll(async () => {
  await mortal?.stop()
  await receiver?.close()
})

/** @returns the id of a delivery of this data after its eighth attempt */
async function exhausted(name: string, data: string): Promise<string> {
  const { davit } = mortal
  receiver.answer(`/${name}`, { status: 500 })
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type] })
  const event = await davit.publish(type, data)
  const [ended] = await driveToEnd(davit, name)
  expect(ended?.status).toMatchObject({ state: 'exhausted', attemptCount: 8 })
  return event.status?.eventId ?? ''
}

async function segments(): Promise<string[]> {
  const { davit } = mortal
  const { items } = await davit.api.list(deliverySegments, { namespace: davit.namespace, limit: 500 })
  return items.map(({ metadata }) => metadata.name)
}

test(
  'it has the bytes of the event, wherever they are kept',
  async () => {
    const { davit } = mortal
    const ids = {
      small: await exhausted('small', BODIES.small),
      large: await exhausted('large', BODIES.large),
    }
    const passing = await ownEventType(davit)
    await davit.endpoint('passing', { url: `${receiver.url}/passing`, eventTypes: [passing] })
    await davit.publish(passing, { n: 1 })
    await davit.deliveriesWhen('passing', ({ length }) => length === 1)
    const before = await segments()

    davit.clock.jump(25 * HOUR)
    await davit.deliveriesWhen(
      'passing',
      (left) => {
        davit.clock.jump(5000)
        return left.length === 0
      },
      LIMIT_MS,
    )
    const [large] = await davit.deliveries('large')
    await until(
      async () => {
        davit.clock.jump(5000)
        const left = await segments()
        return (
          left.every((name) => !before.includes(name) || name === large?.spec.payloadRef?.segment) ||
          undefined
        )
      },
      () => 'the log of the day before is still there',
      LIMIT_MS,
    )
    expect(await segments()).toContain(large?.spec.payloadRef?.segment)
    for (let life = 0; life < 2; life += 1) {
      mortal.kill()
      await mortal.reborn()
    }
    expect(mortal.lives).toBe(3)

    for (const name of ['small', 'large'] as const) {
      receiver.answer(`/${name}`, { status: 200 })
      await davit.annotate(name, { 'davit.dev/redeliver-requested': `${ids[name]}@${davit.time()}` })
      const requests = await receiver.waitFor(9, { path: `/${name}` })
      const [first, again] = [requests[0], requests[8]]
      expect(again?.headers['webhook-id']).not.toBe(ids[name])
      expect(again?.body.equals(first?.body ?? Buffer.alloc(0))).toBe(true)
      expect(String(again?.body)).toContain(`"data":${BODIES[name]}`)
    }
  },
  3 * LIMIT_MS,
)
