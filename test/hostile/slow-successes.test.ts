/**
 * Two endpoints of one organization that succeed a second before the deadline, with as many attempts at a time as a controller makes:
 * the deliveries of another organization start as soon as they do without them. Both are measured in turn.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { type Bed, onBed } from '../bench/bed.ts'
import { nextRun } from '../bench/davit-load.ts'
import { range } from '../bench/figures.ts'
import { inTurn, ratioOf, spreadIn } from '../bench/measure/in-turn.ts'
import { receiptsOf, SHORT_DRAIN, whileEnabled } from '../bench/sections/isolation.ts'
import { BODY_BYTES } from '../bench/sections/usual-load.ts'
import { type EndpointRoute, makeEndpoints } from '../bench/topology.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'
import { rounded, tellFigures } from './figures.ts'

const SLOW = { endpoints: 2, concurrency: 32 }
const PLACES = SLOW.endpoints * SLOW.concurrency
/** Without the reserve for organizations with few attempts. */
const TAKEN = Math.floor(PLACES * 0.85)
/** An attempt may take 20 seconds. */
const SLOW_MS = 19_000
const ROUNDS = 5
const RATE = { seconds: 12, perSecond: 25 }
/** In each round, so that as many wait as are on their way. */
const SLOW_EVENTS = { seconds: 2, perSecond: PLACES }
/** Until what the controller writes for those that wait is written, which takes places from nobody. */
const SETTLED_MS = 2000
/** A few milliseconds vary by one or two even on an idle machine. */
const MOST = { ratio: 1.1, ms: 2 }
const LIMIT_MS = 900_000

test(
  'another organization has its deliveries as soon as without them',
  async () => {
    const receiver = await startReceiver()
    try {
      await onBed(async (bed) => await measure(bed, receiver))
    } finally {
      await receiver.close()
    }
  },
  LIMIT_MS,
)

async function measure(bed: Bed, receiver: Receiver): Promise<void> {
  const controller = await bed.startController({
    env: { ...SHORT_DRAIN, DAVIT_MAX_IN_FLIGHT: String(PLACES) },
  })
  const good = await makeEndpoints(bed, { name: 'good', organizations: 1, endpoints: 1, path: '/ok/good' })
  const taken: number[] = []
  const alone = async () => await receiptsOf(bed, good, RATE)
  // Warms up the code.
  await alone()
  const { without, beside } = await inTurn(ROUNDS, {
    without: alone,
    beside: async () => {
      const slow = await makeSlow(bed, receiver, `slow-${taken.length}`)
      return await whileEnabled(bed, slow, async () => {
        await fill(bed, slow, receiver)
        const found = await alone()
        taken.push(openOf(receiver))
        return found
      })
    },
  })
  await controller.stop()
  const [was, is] = [spreadIn(without, 'p50'), spreadIn(beside, 'p50')]
  // On a busy machine, rounds of the same load differ by more than that.
  const noise = MOST.ms + was.median - was.min
  const beyond = Math.max(0, is.median - MOST.ratio * was.median - noise)
  tellFigures('slow-successes', {
    'rounds of each': ROUNDS,
    'places for attempts': PLACES,
    'places taken, at the end of rounds': Math.min(...taken),
    'p50 without them, ms': range(was, 1),
    'p50 beside them, ms': range(is, 1),
    'p50 beside them over that without': rounded(ratioOf({ without, beside }, 'p50')),
    'p99 beside them over that without': rounded(ratioOf({ without, beside }, 'p99')),
    'p50 beside them beyond 1.1 of that without and noise, ms': rounded(beyond),
  })
  expect(Math.min(...taken)).toBeGreaterThanOrEqual(TAKEN)
  expect(beyond).toBe(0)
}

/** New ones in each round: Davit starts fewer attempts at a time to an endpoint that it knows to be slow. */
async function makeSlow(bed: Bed, receiver: Receiver, name: string): Promise<EndpointRoute[]> {
  const atReceiver = { ...bed, receiverUrl: receiver.url }
  const slow = await makeEndpoints(atReceiver, { ...SLOW, name, organizations: 1, path: '/slow' })
  for (const [index, { namespace }] of slow.entries())
    receiver.answer(`/slow/${namespace}/${index}`, { delayMs: SLOW_MS })
  return slow
}

/** Until the slow endpoints have the places that one organization gets. */
async function fill(bed: Bed, slow: readonly EndpointRoute[], receiver: Receiver): Promise<void> {
  await bed.publisher.call('publish', { run: nextRun(), routes: slow, ...SLOW_EVENTS, bytes: BODY_BYTES })
  await until(
    async () => openOf(receiver) >= TAKEN || undefined,
    () => `only ${openOf(receiver)} places are taken`,
  )
  await sleep(SETTLED_MS)
}

/** Requests that are not answered yet. */
function openOf({ requests }: Receiver): number {
  const since = performance.now() - SLOW_MS
  return requests.filter(({ receivedAt }) => receivedAt > since).length
}
