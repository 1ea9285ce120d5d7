/**
 * The controller is cut off from the API server and does not know it; an owner disables an endpoint meanwhile. What
 * is in memory goes on until an outcome could not be stored for five seconds, and not beyond.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type CutApi, cutApi } from '../support/cut-api.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const BACKLOG = 24
const ANSWER_MS = 80

let davit: TestDavit
let receiver: Receiver
let wire: CutApi

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('unseen', {
    wrapApi: (api) => {
      wire = cutApi(api)
      return wire.api
    },
  })
})

afterAll(async () => {
  wire?.restore()
  await davit?.stop()
  await receiver?.close()
})

/** Resolves when more than the receiver can take so soon is in memory, and sent one at a time. */
async function backlog(name: string): Promise<void> {
  const path = `/${name}`
  const shown = Promise.withResolvers<void>()
  receiver.answer(path, { after: shown.promise }, { delayMs: ANSWER_MS })
  const spec = { url: receiver.url + path, concurrency: 1, eventTypes: ['environment.started'] }
  await davit.endpoint(name, spec)
  const names = await Promise.all(
    Array.from({ length: BACKLOG }, (_, number) => davit.publishOnly('environment.started', { number })),
  )
  await Promise.all(names.map((event) => davit.eventWhen(event, ({ status }) => status?.state !== undefined)))
  const { engine } = davit.controller.webhooks
  await until(
    async () => receiver.received(path).length + engine.counters.total > BACKLOG || undefined,
    () => 'the log did not show all',
  )
  shown.resolve()
}

test('a disabled endpoint gets nothing beyond that', async () => {
  const name = 'unseen'
  const path = `/${name}`
  const { engine, outcomes } = davit.controller.webhooks
  const sent = () => receiver.received(path).length
  const idle = () =>
    until(
      async () => engine.stats().inFlight === 0 || undefined,
      () => 'attempts are under way',
    )
  await backlog(name)

  wire.cut()
  await davit.patchSpec(name, { state: 'disabled' })
  const atCut = sent()
  await receiver.waitFor(atCut + 1, { path })
  // The outcome of the attempt before may have been stored just before the cut.
  await until(
    async () => outcomes.oldestMs() > 0 || undefined,
    () => 'no outcome waits to be stored',
  )
  davit.clock.jump(5001)
  const atLimit = sent()
  await idle()
  expect(sent()).toBeLessThanOrEqual(atLimit + 1)
  expect(sent()).toBeLessThan(BACKLOG)
  expect(davit.controller.problems()).toContain('failed to store delivery outcomes')
  davit.clock.jump(10 * 60_000)
  await idle()
  expect(sent()).toBeLessThanOrEqual(atLimit + 1)

  const atEnd = sent()
  wire.restore()
  await davit.endpointWhen(name, ({ status }) => status?.state === 'disabled')
  await passBy(davit, receiver)
  expect(sent()).toBe(atEnd)
  expect(davit.controller.problems()).toEqual([])

  await davit.patchSpec(name, { state: 'enabled' })
  await receiver.waitFor(BACKLOG, { path })
  await until(
    async () => engine.counters.total === 0 || undefined,
    () => `left: ${JSON.stringify(engine.stats())}`,
  )
  const ids = receiver.received(path).map(({ headers }) => headers['webhook-id'])
  expect(ids.length).toBe(BACKLOG)
  expect(new Set(ids).size).toBe(BACKLOG)
})
