/** An API server that answers 429 and says when to come again: it is left alone for so long, and nothing is lost or done twice. */
import { afterAll, beforeAll, expect, inject, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { type ApiFront, type FrontRequest, startApiFront, tooBusy } from '../support/api-front.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

/** More than any wait of Davit's own before a first repeat. */
const ASKED_SECONDS = 3
const ASKED_MS = ASKED_SECONDS * 1000
/** Clocks of two sorts, and the way there. */
const TOLERANCE_MS = 50

let front: ApiFront
let davit: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  const access = inject('adminAccess')
  front = await startApiFront(access)
  davit = await startDavit('busy-api', { cluster: { access, kubeconfigPath: front.kubeconfigPath } })
})

afterAll(async () => {
  await davit?.stop()
  await front?.stop()
  await receiver?.close()
})

/** The request that was turned away, and those of its sort that came after it. */
function turnedAway(isOfSort: (request: FrontRequest) => boolean): [FrontRequest, ...FrontRequest[]] {
  const all = front.requests.filter(isOfSort)
  const first = all.findIndex(({ status }) => status === 429)
  const [turned, ...later] = all.slice(first)
  if (first < 0 || !turned) throw new Error('nothing was turned away')
  return [turned, ...later]
}

const isAppend = ({ method, path }: FrontRequest) => method === 'POST' && path.endsWith('/deliverysegments')
const isWatch = ({ isWatch, path }: FrontRequest) => isWatch && path.endsWith('/webhookendpoints')

test('a write comes again when it was asked to, not before, and is done once', async () => {
  const type = await ownEventType(davit)
  await davit.endpoint('written', { url: `${receiver.url}/written`, eventTypes: [type] })
  front.answer(isAppend, tooBusy(ASKED_SECONDS))
  const { status } = await davit.publish(type, { number: 1 })
  expect(status).toMatchObject({ deliveries: 1 })
  const [turned, again, ...more] = turnedAway(isAppend)
  expect((again?.at ?? 0) - turned.at).toBeGreaterThanOrEqual(ASKED_MS - TOLERANCE_MS)
  expect([again?.status, more]).toEqual([201, []])
  await receiver.waitFor(1, { path: '/written' })
  const name = status?.eventId?.replace('msg_', '') ?? 'none'
  const { items } = await davit.api.list(deliverySegments, { namespace: davit.namespace })
  expect(items.filter((raw) => JSON.stringify(raw).includes(name))).toHaveLength(1)
})

test('a start waits for its lists as long as it was asked to', async () => {
  const isList = ({ method, path, isWatch }: FrontRequest) =>
    method === 'GET' && !isWatch && path.endsWith('/webhookendpoints')
  await davit.controller.stop()
  front.answer(isList, tooBusy(ASKED_SECONDS))
  await davit.startController()
  const [turned, again] = turnedAway(isList)
  expect((again?.at ?? 0) - turned.at).toBeGreaterThanOrEqual(ASKED_MS - TOLERANCE_MS)
})

test('a watch is opened again when it was asked to, and shows what was missed', async () => {
  await davit.controller.stop()
  front.answer(isWatch, tooBusy(ASKED_SECONDS))
  await davit.startController()
  await until(
    async () => front.requests.some((request) => isWatch(request) && request.status === 429) || undefined,
    () => 'no watch was turned away',
  )
  const type = await ownEventType(davit)
  await davit.endpoint('missed', { url: `${receiver.url}/missed`, eventTypes: [type] })
  const [turned, again] = turnedAway(isWatch)
  expect((again?.at ?? 0) - turned.at).toBeGreaterThanOrEqual(ASKED_MS - TOLERANCE_MS)
  expect(again?.status).toBe(200)
})
