/** Ordered endpoints: strictly in the order of the log, the head alone (interface §6.5). */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { WebhookDelivery } from '../../src/apis/webhook-delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt, driveToEnd, inLogOrder, jumpToNext } from '../support/drive.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'

let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('ordered')
})

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** `data.n` of each request. */
function numbersOf(requests: readonly ReceivedRequest[]): number[] {
  return requests.map(({ body }) => (JSON.parse(body.toString()) as { data: { n: number } }).data.n)
}

function upTo(count: number): number[] {
  return Array.from({ length: count }, (_, index) => index)
}

async function publishNumbers(type: string, from: number, to: number): Promise<void> {
  for (let n = from; n < to; n += 1) await davit.publishOnly(type, { n })
}

async function orderedEndpoint(name: string, more: Record<string, unknown> = {}): Promise<string> {
  const type = await ownEventType(davit)
  await davit.endpoint(name, { url: `${receiver.url}/${name}`, eventTypes: [type], ordered: true, ...more })
  return type
}

/** The delivery of an endpoint that is first in the log, once it is as wanted. */
async function headWhen(name: string, wanted: (head: WebhookDelivery) => boolean): Promise<WebhookDelivery> {
  const find = (all: readonly WebhookDelivery[]) => inLogOrder(all).slice(0, 1).find(wanted)
  const head = find(await davit.deliveriesWhen(name, (all) => find(all) !== undefined))
  if (!head) throw new Error('there is none')
  return head
}

describe('an ordered endpoint', () => {
  const prefix = 'ordered'

  test('events arrive one by one in the order in which they were created', async () => {
    const name = `${prefix}-line`
    const delayMs = 15
    receiver.answer(`/${name}`, { delayMs })
    const type = await orderedEndpoint(name, { concurrency: 8 })
    await publishNumbers(type, 0, 30)
    const requests = await receiver.waitFor(30, { path: `/${name}` })
    expect(numbersOf(requests)).toEqual(upTo(30))
    for (const [index, request] of requests.entries()) {
      const before = requests[index - 1]
      // The answer to the one before was not sent earlier than this.
      if (before) expect(request.receivedAt - before.receivedAt).toBeGreaterThan(delayMs - 2)
    }
  })

  test('a stuck head holds all later ones until it succeeds', async () => {
    const name = `${prefix}-stuck`
    const path = `/${name}`
    receiver.answer(path, { status: 500 }, { status: 503 }, { status: 200 })
    const type = await orderedEndpoint(name)
    await publishNumbers(type, 0, 5)
    await receiver.waitFor(1, { path })
    const waiting = await headWhen(name, ({ status }) => status?.attemptCount === 1)
    await passBy(davit, receiver)
    expect(numbersOf(receiver.received(path))).toEqual([0])
    jumpToNext(davit, [waiting])
    await receiver.waitFor(2, { path })
    await headWhen(name, ({ status }) => status?.attemptCount === 2)
    await passBy(davit, receiver)
    expect(numbersOf(receiver.received(path))).toEqual([0, 0])
    davit.clock.jump(180_000)
    expect(numbersOf(await receiver.waitFor(7, { path }))).toEqual([0, 0, 0, 1, 2, 3, 4])
  })

  test('a stuck head holds later ones until it is exhausted, and then they go on', async () => {
    const name = `${prefix}-exhausted`
    const path = `/${name}`
    receiver.answer(path, ...upTo(8).map(() => ({ status: 500 })), { status: 200 })
    const type = await orderedEndpoint(name)
    await publishNumbers(type, 0, 3)
    await receiver.waitFor(1, { path })
    for (let made = 2; made <= 8; made += 1) {
      await headWhen(name, ({ status }) => status?.attemptCount === made - 1)
      // The controller, which has a connection of its own, must have heard of that too.
      await passBy(davit, receiver)
      davit.clock.jump(180_000)
      await receiver.waitFor(made, { path })
    }
    const requests = await receiver.waitFor(10, { path })
    expect(numbersOf(requests)).toEqual([...upTo(8).map(() => 0), 1, 2])
    const exhausted = await headWhen(name, ({ status }) => status?.state === 'exhausted')
    const next = Number(requests[8]?.headers['webhook-timestamp'])
    expect(Math.floor(Date.parse(exhausted.status?.completedAt ?? '') / 1000)).toBeLessThanOrEqual(next)
  })
})

test('the order holds across a restart while the head is stuck', async () => {
  const name = 'restarted'
  const path = `/${name}`
  receiver.answer(path, { status: 500 }, { status: 200 })
  const type = await orderedEndpoint(name)
  await publishNumbers(type, 0, 4)
  await headWhen(name, ({ status }) => status?.state === 'retrying')
  await davit.restart()
  await publishNumbers(type, 4, 6)
  await passBy(davit, receiver)
  expect(numbersOf(receiver.received(path))).toEqual([0])
  davit.clock.jump(180_000)
  expect(numbersOf(await receiver.waitFor(7, { path }))).toEqual([0, 0, 1, 2, 3, 4, 5])
})

test('an endpoint that becomes ordered while a delivery waits holds the later ones behind it', async () => {
  const name = 'becomes-ordered'
  const path = `/${name}`
  receiver.answer(path, { status: 500 }, { status: 200 })
  const type = await orderedEndpoint(name, { ordered: false })
  await davit.publish(type, { n: 0 })
  const waiting = await driveToAttempt(davit, name, 1)
  await davit.patchSpec(name, { ordered: true })
  await davit.endpointWhen(name, ({ status, metadata }) => status?.observedGeneration === metadata.generation)
  await publishNumbers(type, 1, 4)
  await passBy(davit, receiver)
  expect(numbersOf(receiver.received(path))).toEqual([0])
  jumpToNext(davit, waiting)
  expect(numbersOf(await receiver.waitFor(5, { path }))).toEqual([0, 0, 1, 2, 3])
})

test('an endpoint that is no longer ordered sends what a stuck head held, and the head when it is due', async () => {
  const name = 'becomes-unordered'
  const path = `/${name}`
  receiver.answer(path, { status: 500 }, { status: 200 })
  const type = await orderedEndpoint(name)
  await publishNumbers(type, 0, 4)
  await headWhen(name, ({ status }) => status?.state === 'retrying')
  await davit.patchSpec(name, { ordered: false })
  const [, ...others] = numbersOf(await receiver.waitFor(4, { path }))
  expect(others.sort()).toEqual([1, 2, 3])
  await driveToEnd(davit, name, 4)
  expect(numbersOf(receiver.received(path)).at(-1)).toBe(0)
})
