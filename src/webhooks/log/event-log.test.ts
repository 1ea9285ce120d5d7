import { expect, test } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../../test/support/fake-clock.ts'
import { calling, FaultyApi } from '../../../test/support/faulty-api.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { deliverySegments } from '../../apis/delivery-segment.ts'
import { ApiError } from '../../kube/client.ts'
import { createEventLog } from './writers.ts'

const EVENT = { id: '7ycfp16rfzzcvr8x5fb59vxhgh', namespace: 'acme', type: 'billing.updated', payload: '{}' }
const ACCEPTED = [{ event: EVENT, targets: [] }]

function bed() {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const api = new FaultyApi(store)
  const random = fixedRandom(0.5)
  const log = createEventLog({ store: logOn(api, { clock, random }), writer: 'w', clock })
  return { clock, api, store, log }
}

test('what was looked up before the process stood still is not written when it goes on: others may have accepted it meanwhile', async () => {
  const { clock, store, log } = bed()
  const appended = log.append(ACCEPTED)
  appended.catch(() => undefined)
  clock.standStill(31_000)
  await clock.elapse(20_000)
  await expect(appended).rejects.toMatchObject({ kind: 'Unavailable' })
  expect(store.all(deliverySegments)).toEqual([])
})

test('nor what could not be written at first, and stood still then', async () => {
  const { clock, api, store, log } = bed()
  api.fail(calling('create', deliverySegments), { before: new ApiError('Unavailable', 'no answer') })
  const appended = log.append(ACCEPTED)
  appended.catch(() => undefined)
  await settle()
  clock.standStill(31_000)
  await clock.elapse(20_000)
  await expect(appended).rejects.toMatchObject({ kind: 'Unavailable' })
  expect(store.all(deliverySegments)).toEqual([])
})

test('what waits for seconds is written', async () => {
  const { clock, store, log } = bed()
  const appended = log.append(ACCEPTED)
  clock.standStill(20_000)
  await clock.elapse(1000)
  await appended
  expect(store.all(deliverySegments)).toHaveLength(1)
})
