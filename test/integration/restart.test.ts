/**
 * The process ends before and after each call that a delivery needs, and the next one goes on: nothing is lost, and
 * only a crash between an answer of 2xx and its record repeats a request.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEvent, webhookEvent, webhookEvents } from '../../src/apis/webhook-event.ts'
import { jumpToNext } from '../support/drive.ts'
import { type ApiCall, calling } from '../support/faulty-api.ts'
import { type MortalDavit, startMortalDavit } from '../support/mortal-davit.ts'
import { type Answer, type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
})

afterAll(async () => {
  await receiver?.close()
})

type Window = {
  what: string
  at: (call: ApiCall) => boolean
  answers: Answer[]
  /** Requests where the process ends before the call is done, and after. */
  before: Requests
  after: Requests
  /** Ended before it is done, nothing is left of the failure that the receiver saw. */
  forgetsFailure?: true
}

/** Two where the first attempt may be on the wire by then. */
type Requests = readonly number[]
const ONE: Requests = [1]
const TWO: Requests = [2]
const THREE: Requests = [3]
const ONE_OR_TWO: Requests = [1, 2]

const AT_ONCE: Answer[] = [{ status: 200 }]
const SECOND_TIME: Answer[] = [{ status: 503 }, { status: 200 }]

const recording = (kind: string) =>
  calling('create', outcomeSegments, (body) =>
    String((body as { spec: { records: string } }).spec.records).includes(` ${kind}`),
  )
const writingState = (state: string) =>
  calling(
    'patch',
    webhookDeliveries,
    (body) => (body as { status: { state?: string } }).status.state === state,
  )
const notingEvent = (state: string) =>
  calling('patch', webhookEvents, (body) => (body as { status: { state?: string } }).status.state === state)

const WINDOWS: Window[] = [
  {
    what: 'the append',
    at: calling('create', deliverySegments),
    answers: AT_ONCE,
    before: ONE,
    after: ONE_OR_TWO,
  },
  { what: 'the record of a success', at: recording('sent'), answers: AT_ONCE, before: TWO, after: ONE },
  {
    what: 'the first note in the event',
    at: calling('patch', webhookEvents),
    answers: AT_ONCE,
    before: ONE_OR_TWO,
    after: ONE_OR_TWO,
  },
  {
    what: 'the note that all is delivered',
    at: notingEvent('dispatched'),
    answers: AT_ONCE,
    before: ONE,
    after: ONE,
  },
  {
    what: 'the record of a failure',
    at: recording('failed'),
    answers: SECOND_TIME,
    before: TWO,
    after: TWO,
    forgetsFailure: true,
  },
  {
    what: 'the object of a failure',
    at: calling('create', webhookDeliveries),
    answers: SECOND_TIME,
    before: TWO,
    after: TWO,
  },
  {
    what: 'the first status of a failure',
    at: writingState('retrying'),
    answers: SECOND_TIME,
    before: TWO,
    after: TWO,
  },
  {
    what: 'the record that an object has it',
    at: recording('moved'),
    answers: SECOND_TIME,
    before: TWO,
    after: TWO,
  },
  {
    what: 'the status of a success',
    at: writingState('succeeded'),
    answers: SECOND_TIME,
    before: THREE,
    after: TWO,
  },
  {
    what: 'the object of a success',
    at: calling('create', webhookDeliveries),
    answers: AT_ONCE,
    before: ONE,
    after: ONE,
  },
  {
    what: 'the first status of a success',
    at: writingState('succeeded'),
    answers: AT_ONCE,
    before: ONE,
    after: ONE,
  },
]

describe('a process that ends at any call', () => {
  const path = '/restart'
  let mortal: MortalDavit

  beforeAll(async () => {
    mortal = await startMortalDavit('restart')
    await mortal.davit.endpoint('target', { url: receiver.url + path })
  })

  afterAll(async () => {
    await mortal?.stop()
  })

  /** Publishes, lets the process end at the call, and goes on until all is delivered. */
  async function deliverThrough(window: Window, fault: 'dies before' | 'dies after') {
    const earlier = receiver.received(path).length
    receiver.answer(path, ...window.answers)
    mortal.api.fail(window.at, fault)
    const name = await mortal.davit.publishOnly('environment.started', { number: 1 })
    await untilDead(name)
    await mortal.reborn()
    const event = await dispatched(name)
    return {
      event,
      ids: receiver
        .received(path)
        .slice(earlier)
        .map(({ headers }) => headers['webhook-id']),
    }
  }

  async function untilDead(name: string): Promise<void> {
    const { api } = mortal
    await until(
      async () => {
        if (!api.dead) await moveOn()
        return api.dead || undefined
      },
      () => `${name} did not come to the call: ${JSON.stringify(api.calls.slice(-20))}`,
    )
  }

  async function dispatched(name: string): Promise<WebhookEvent> {
    const { davit } = mortal
    return await until(
      async () => {
        const event = webhookEvent.parse(
          await davit.api.get(webhookEvents, { namespace: davit.organization, name }),
        )
        if (event.status?.state === 'dispatched') return event
        await moveOn()
        return undefined
      },
      () => `${name} is not delivered: ${davit.logLines.slice(-10).join('')}`,
    )
  }

  /** To the next attempt, where one waits; else so far that nothing has to be waited for that goes by the clock. */
  async function moveOn(): Promise<void> {
    const { davit } = mortal
    const now = davit.clock.now()
    const waiting = (await davit.deliveries('target')).filter(
      ({ status }) => Date.parse(status?.nextAttemptAt ?? '') > now,
    )
    if (waiting.length > 0) jumpToNext(davit, waiting)
    else davit.clock.jump(200)
  }

  describe.each(['before', 'after'] as const)('the process ends %s', (when) => {
    test.for(WINDOWS)('$what', async (window) => {
      const { davit } = mortal
      const { event, ids } = await deliverThrough(window, `dies ${when}`)
      const eventId = event.status?.eventId
      expect(window[when]).toContain(ids.length)
      expect(new Set(ids)).toEqual(new Set([eventId]))
      expect(event.status).toMatchObject({ deliveries: 1 })
      const shown = (await davit.deliveries('target')).filter(({ spec }) => spec.deliveryId === eventId)
      const failed = window.answers === SECOND_TIME && !(window.forgetsFailure && when === 'before')
      const states = shown.map(({ status }) => status?.state)
      // The object of a first attempt that succeeded is for people, and may be left out.
      const allowed = failed ? [['succeeded']] : [[], ['succeeded']]
      expect(allowed).toContainEqual(states)
      const { engine } = davit.controller.webhooks
      await until(
        async () => (engine.counters.total === 0 && engine.ctx.segments.size === 0) || undefined,
        () => `left: ${JSON.stringify(engine.stats())}`,
      )
    })
  })
})
