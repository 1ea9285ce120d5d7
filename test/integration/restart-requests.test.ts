/** The process ends between what Davit publishes by itself and its note of that, and with a backlog that is held. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { type WebhookDelivery, webhookDeliveries } from '../../src/apis/webhook-delivery.ts'
import { type WebhookEndpointStatus, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { driveToEnd, inLogOrder, jumpToNext } from '../support/drive.ts'
import { type ApiCall, calling, type Fault } from '../support/faulty-api.ts'
import { type MortalDavit, startMortalDavit } from '../support/mortal-davit.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

let receiver: Receiver
let mortal: MortalDavit

beforeAll(async () => {
  receiver = await startReceiver()
  mortal = await startMortalDavit('restart-requests')
})

afterAll(async () => {
  await mortal?.stop()
  await receiver?.close()
})

const DIES = ['dies before', 'dies after'] as const
const HOUR = 3_600_000

const writesStatus = (looksLike: (status: WebhookEndpointStatus) => boolean) =>
  calling('patch', webhookEndpoints, (body) => looksLike((body as { status: WebhookEndpointStatus }).status))

const appends = (type: string) =>
  calling('create', deliverySegments, (body) => JSON.stringify(body).includes(type))

function idsAt(path: string): Set<unknown> {
  return new Set(receiver.received(path).map(({ headers }) => headers['webhook-id']))
}

/** All that the log holds has come to its end. */
async function nothingLeft(): Promise<void> {
  const { davit } = mortal
  await until(
    async () => {
      const { engine } = davit.controller.webhooks
      davit.clock.jump(200)
      return (engine.counters.total === 0 && engine.ctx.segments.size === 0) || undefined
    },
    () => `left: ${JSON.stringify(davit.controller.webhooks.engine.stats())}`,
  )
}

/** How many objects there are. That of a first attempt that succeeded is for people, and may go with the process. */
async function countOf(name: string): Promise<number> {
  const found = await mortal.davit.deliveries(name)
  expect(found.filter(({ status }) => status?.state !== 'succeeded')).toEqual([])
  return found.length
}

async function dieAt(at: (call: ApiCall) => boolean, fault: Fault, act: () => Promise<void>): Promise<void> {
  mortal.api.fail(at, fault)
  await act()
  await mortal.api.died
  await mortal.reborn()
}

describe.each(DIES)('a ping is one ping, though the process %s', (fault) => {
  test.for([
    { what: 'its append', at: appends('webhook.ping') },
    { what: 'the note of it', at: writesStatus((status) => status.lastHandled?.ping !== undefined) },
  ])('$what is done', async ({ what, at }) => {
    const { davit } = mortal
    const name = `ping-${what.replaceAll(' ', '-')}-${fault.replace(' ', '-')}`
    const path = `/${name}`
    await davit.endpoint(name, { url: receiver.url + path, eventTypes: ['webhook.ping'] })
    const value = davit.time()
    await dieAt(at, fault, () => davit.annotate(name, { 'davit.dev/ping-requested-at': value }))
    await davit.endpointWhen(name, ({ status }) => status?.lastHandled?.ping === value)
    await receiver.waitFor(1, { path })
    await nothingLeft()
    expect(idsAt(path).size).toBe(1)
    expect(receiver.received(path).length).toBeLessThanOrEqual(2)
    expect(await countOf(name)).toBeLessThanOrEqual(1)
  })
})

describe.each(DIES)('automatic disabling is announced once, though the process %s', (fault) => {
  test.for([
    { what: 'the status that disables', at: writesStatus(({ disabledAt }) => disabledAt !== undefined) },
    { what: 'the append of the announcement', at: appends('webhook.endpoint.disabled') },
    {
      what: 'the note of the announcement',
      at: writesStatus(({ announcedAt }) => announcedAt !== undefined),
    },
  ])('$what is done', async ({ what, at }) => {
    const { davit } = mortal
    const name = `bad-${what.replaceAll(' ', '-')}-${fault.replace(' ', '-')}`
    const path = `/${name}`
    const news = `/news-${name}`
    receiver.answer(path, { status: 500 })
    await davit.endpoint(`news-${name}`, {
      url: receiver.url + news,
      eventTypes: ['webhook.endpoint.disabled'],
    })
    await davit.endpoint(name, { url: receiver.url + path, eventTypes: ['environment.stopped'] })
    await givenFourFailures(name)
    await dieAt(at, fault, async () => {
      await davit.publish('environment.stopped', { number: 1 })
      await driveUntilDead(name)
    })
    const [ended] = await driveToEnd(davit, name)
    expect(ended?.status).toMatchObject({ state: 'exhausted', attemptCount: 8 })
    const { status } = await davit.endpointWhen(
      name,
      ({ status }) => status?.announcedAt !== undefined && status.announcedAt === status.disabledAt,
    )
    expect(status).toMatchObject({
      state: 'disabled',
      disabledReason: 'ConsecutiveFailures',
      consecutiveFailures: 5,
    })
    await receiver.waitFor(1, { path: news })
    await nothingLeft()
    expect(idsAt(news).size).toBe(1)
    expect(receiver.received(news).length).toBeLessThanOrEqual(2)
    expect(await countOf(`news-${name}`)).toBeLessThanOrEqual(1)
    // Out of the way of the next one's announcement.
    await davit.api.delete(webhookEndpoints, { namespace: davit.organization, name: `news-${name}` })
  })

  /** One more exhausted delivery disables it. */
  async function givenFourFailures(name: string): Promise<void> {
    const { davit } = mortal
    const failingSince = new Date(davit.clock.now() - 25 * HOUR).toISOString()
    const status = { consecutiveFailures: 4, failingSince }
    const ref = { namespace: davit.organization, name }
    await davit.api.patch(webhookEndpoints, ref, { status }, { subresource: 'status' })
    await until(
      async () =>
        davit.controller.webhooks.directory.get(davit.organization, name)?.endpoint.status?.failingSince,
      () => 'the streak is not seen',
    )
  }

  async function driveUntilDead(name: string): Promise<void> {
    const { davit, api } = mortal
    await until(
      async () => {
        if (api.dead) return true
        const now = davit.clock.now()
        const waiting = (await davit.deliveries(name)).filter(
          ({ status }) => Date.parse(status?.nextAttemptAt ?? '') > now,
        )
        if (waiting.length > 0) jumpToNext(davit, waiting)
        return undefined
      },
      () => `it did not come to the call: ${JSON.stringify(api.calls.slice(-10))}`,
    )
  }
})

describe('a backlog that is held', () => {
  const COUNT = 30

  function isFirst({ body }: ApiCall): boolean {
    const { spec } = body as Pick<WebhookDelivery, 'spec'>
    return spec.payload?.includes('"number":0}') === true
  }

  test.for([
    { moves: 7, fault: 'dies before' },
    { moves: 7, fault: 'dies after' },
    { moves: 10, fault: 'dies after' },
  ] as const)(
    'goes on in its order where the process $fault object $moves of it is made',
    async ({ moves, fault }) => {
      const { davit } = mortal
      const name = `held-${moves}-${fault.replace(' ', '-')}`
      const path = `/${name}`
      const spec = {
        url: receiver.url + path,
        ordered: true,
        eventTypes: ['environment.started'],
      }
      receiver.answer(path, { status: 503 }, { status: 200 })
      await davit.endpoint(name, spec)
      const isMove = calling('create', webhookDeliveries)
      // However long publishing takes, only the first is delivered before the process is to end.
      const all = Promise.withResolvers<void>()
      const goOn = mortal.api.fail((call) => isMove(call) && !isFirst(call), { hold: all.promise }, COUNT)
      const names: string[] = []
      for (let number = 0; number < COUNT; number += 1)
        names.push(await davit.publishOnly('environment.started', { number }))
      for (const event of names) await davit.eventWhen(event, ({ status }) => status?.state !== undefined)
      // The others wait behind the first, which has failed.
      await davit.deliveriesWhen(name, ([first]) => first?.status?.state === 'retrying')
      goOn()
      let made = 0
      await dieAt(
        (call) => isMove(call) && ++made === moves,
        fault,
        async () => {
          all.resolve()
          davit.clock.jump(2000)
          await mortal.api.died
          await davit.patchSpec(name, { state: 'disabled' })
        },
      )
      // All of it is delivered while it is held, and none of it is sent.
      await davit.deliveriesWhen(name, (held) => {
        davit.clock.jump(200)
        return held.length === COUNT
      })
      davit.clock.jump(HOUR)
      await passBy(davit, receiver)
      expect(receiver.received(path).length).toBe(1)
      await davit.patchSpec(name, { state: 'enabled' })
      const ended = await driveToEnd(davit, name, COUNT)
      await nothingLeft()
      expect(new Set(ended.map(({ status }) => status?.state))).toEqual(new Set(['succeeded']))
      const inOrder = inLogOrder(ended).map(({ spec }) => spec.deliveryId)
      const received = receiver.received(path).map(({ headers }) => String(headers['webhook-id']))
      expect(received).toEqual([inOrder[0], ...inOrder])
    },
  )
})
