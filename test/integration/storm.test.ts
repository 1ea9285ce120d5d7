/** Three of ten requests to the API server fail, in every way in which requests fail: the promises hold, and requests stay few. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { isFinal } from '../../src/webhooks/delivery/plan.ts'
import { readEvents, readLog } from '../chaos/stored.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type ReceivedRequest, type Receiver, startReceiver } from '../support/receiver.ts'
import { type Storm, stormyApi } from '../support/stormy-api.ts'
import { until } from '../support/until.ts'
import { judge, type Reception, violations } from '../support/verdict.ts'

const SHARE = 0.3
const EVENTS = 18
/** Every event goes to these. */
const ENDPOINTS = {
  ordered: { ordered: true },
  'ordered-too': { ordered: true },
  one: {},
  two: {},
} as const
/** Deliveries to an endpoint that takes nothing: each is attempted eight times, and counted once. */
const HOPELESS = 4
/** Ten seconds on an idle machine. */
const DELIVERED_LIMIT_MS = 200_000
/** Of a hook: also for the start, and publishing. */
const STORY_LIMIT_MS = 240_000

type Outcome = {
  davit: TestDavit
  storm: Storm
  receptions: Reception[]
}

/** A whole story of publishing and delivering, with so many of the requests failing. */
async function live(receiver: Receiver, seed: number, share: number): Promise<Outcome> {
  const receptions: Reception[] = []
  let storm: Storm | undefined
  const davit = await startDavit(`storm-${seed}`, {
    wrapApi: (api) => {
      storm = stormyApi(api, { seed, share })
      return storm.api
    },
  })
  if (!storm) throw new Error('the API was not wrapped')
  const make = (endpoint: string, eventType: string, spec: object, always?: number) => {
    receiver.answer(`/${seed}/${endpoint}`, (request) => answer(receptions, endpoint, request, always))
    return davit.endpoint(endpoint, {
      url: `${receiver.url}/${seed}/${endpoint}`,
      eventTypes: [eventType],
      ...spec,
    })
  }
  await Promise.all([
    ...Object.entries(ENDPOINTS).map(([endpoint, spec]) => make(endpoint, 'environment.started', spec)),
    make('hopeless', 'environment.stopped', {}, 500),
  ])
  for (let number = 0; number < EVENTS; number += 1) {
    await davit.publishOnly('environment.started', { number })
    if (number < HOPELESS) await davit.publishOnly('environment.stopped', { number })
  }
  await driveToTheEnd(davit)
  return { davit, storm, receptions }
}

/** One in three is rejected once, one in nine twice. */
function answer(receptions: Reception[], endpoint: string, request: ReceivedRequest, always?: number) {
  const id = String(request.headers['webhook-id'])
  const earlier = receptions.filter((one) => one.endpoint === endpoint && one.id === id).length
  const { data } = JSON.parse(request.body.toString()) as { data: { number: number } }
  const refusals = data.number % 9 === 0 ? 2 : Number(data.number % 3 === 0)
  const status = always ?? (earlier < refusals ? 503 : 200)
  receptions.push({ endpoint, id, run: 1, answer: status === 200 ? 'ok' : 'failed' })
  return { status }
}

async function driveToTheEnd(davit: TestDavit): Promise<void> {
  await until(
    async () => {
      const events = await readEvents(davit.api, davit.organization)
      if (events.every(({ status }) => status?.state === 'dispatched')) return true
      const stored = events.every(({ status }) => status?.state !== undefined)
      await moveOn(davit, stored)
      return undefined
    },
    () =>
      `not all is delivered: ${JSON.stringify(davit.controller.webhooks.engine.stats())} ${davit.logLines.slice(-8).join('')}`,
    DELIVERED_LIMIT_MS,
  )
}

/**
 * To the time when all waiting deliveries are due, when nothing else is in progress. An append is remembered for a quarter of an
 * hour: hours may pass only when every event is stored as accepted, and the process knows that.
 */
async function moveOn(davit: TestDavit, stored: boolean): Promise<void> {
  const open = (await davit.deliveries()).filter(({ status }) => !isFinal(status?.state))
  // Looked at last: nothing may begin between this and the jump.
  const { engine, book } = davit.controller.webhooks
  const { inFlight, settling, openSegments } = engine.stats()
  const known = stored && book.waitingIn(davit.organization).length === 0
  if (inFlight + settling + openSegments > 0) return davit.clock.jump(500)
  // A pass that failed often waits for minutes.
  if (!known) return davit.clock.jump(2000)
  const due = Math.max(0, ...open.map(({ status }) => Date.parse(status?.nextAttemptAt ?? '') || 0))
  davit.clock.jump(Math.max(5000, due - davit.clock.now()))
}

let receiver: Receiver
let calm: Outcome
let calmRequests = 0

beforeAll(async () => {
  receiver = await startReceiver()
  calm = await live(receiver, 0, 0)
  calmRequests = totalOf(calm.storm)
}, STORY_LIMIT_MS)

afterAll(async () => {
  await calm?.davit.stop()
  await receiver?.close()
})

function totalOf({ requests }: Storm): number {
  return [...requests.values()].reduce((sum, count) => sum + count, 0)
}

describe.each([1, 2])('storm %i', (seed) => {
  let outcome: Outcome

  beforeAll(async () => {
    outcome = await live(receiver, seed, SHARE)
  }, STORY_LIMIT_MS)

  afterAll(async () => {
    await outcome?.davit.stop()
  })

  test('everything is delivered, once and in order where asked, and nothing is attempted more than eight times', async () => {
    const { davit, receptions } = outcome
    const log = await readLog(davit.api, davit.namespace)
    expect(log.deliveries.length).toBe(EVENTS * Object.keys(ENDPOINTS).length + HOPELESS)
    const verdict = judge({
      accepted: log.deliveries,
      receptions,
      orderedEndpoints: new Set(['ordered', 'ordered-too']),
      killed: new Set(),
      maxAttempts: 8,
    })
    expect(violations(verdict)).toEqual([])
  })

  test('what the objects say is what the receiver saw', async () => {
    const { davit, receptions } = outcome
    const objects = await davit.deliveries()
    const wrong = objects.flatMap(({ spec, status }) => {
      const seen = receptions.filter(
        ({ endpoint, id }) => endpoint === spec.endpoint && id === spec.deliveryId,
      )
      const state = seen.at(-1)?.answer === 'ok' ? 'succeeded' : 'exhausted'
      const agrees = status?.state === state && status.attemptCount === seen.length
      return agrees ? [] : [{ spec, status, seen }]
    })
    expect(wrong).toEqual([])
  })

  test('each exhausted delivery was counted once', async () => {
    const { status } = await outcome.davit.endpointWhen('hopeless', () => true)
    expect(status).toMatchObject({ consecutiveFailures: HOPELESS, state: 'enabled' })
  })

  test('requests stay few, in all and for each object', () => {
    const { storm } = outcome
    expect(totalOf(storm)).toBeLessThan(3 * calmRequests)
    const most = [...storm.requests].filter(([call]) => !call.startsWith('watch') && !call.startsWith('list'))
    expect(most.filter(([, count]) => count > 60)).toEqual([])
  })
})
