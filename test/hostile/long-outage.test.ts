/**
 * A receiver that takes nothing for four hours, and then everything. The schedule of eight attempts spans 4 h 21 min at
 * least, where chance shortens every wait by half, and 8 h 42 min at most.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { isFinal } from '../../src/domain/delivery.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { jumpToNext } from '../support/drive.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { tellFigures } from './figures.ts'

const MINUTE = 60_000
const OUTAGE_MS = 4 * 60 * MINUTE
const EVERY_MS = 8 * MINUTE
const EVENTS = OUTAGE_MS / EVERY_MS
const CONCURRENCY = 4
const ANSWER_MS = 30
const LIMIT_MS = 180_000

let davit: TestDavit
let receiver: Receiver
let up = false
let underWay = 0
let most = 0

beforeAll(async () => {
  receiver = await startReceiver()
  davit = await startDavit('long-outage')
  receiver.answer('/away', () => {
    if (!up) return { status: 503 }
    underWay += 1
    most = Math.max(most, underWay)
    const after = new Promise<void>((resolve) => {
      setTimeout(() => {
        underWay -= 1
        resolve()
      }, ANSWER_MS)
    })
    return { after }
  })
  await davit.endpoint('away', {
    url: `${receiver.url}/away`,
    eventTypes: ['billing.updated'],
    concurrency: CONCURRENCY,
  })
}, LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** All that were made have failed so far, and wait for a time to come; or have ended. */
async function rested(count: number) {
  return await davit.deliveriesWhen(
    'away',
    (all) =>
      all.length >= count &&
      all.every(
        ({ status }) => isFinal(status?.state) || Date.parse(status?.nextAttemptAt ?? '') > davit.clock.now(),
      ),
    LIMIT_MS,
  )
}

test(
  'gets all that was published meanwhile, each once, and never more at a time than it asked for',
  async () => {
    for (let n = 0; n < EVENTS; n += 1) {
      await davit.publish('billing.updated', { n })
      await rested(n + 1)
      davit.clock.jump(EVERY_MS)
    }
    const waiting = await rested(EVENTS)
    const failed = receiver.requests.length
    up = true
    let all = waiting
    while (!all.every(({ status }) => isFinal(status?.state))) {
      jumpToNext(
        davit,
        all.filter(({ status }) => !isFinal(status?.state)),
      )
      all = await rested(EVENTS)
    }
    const taken = receiver.requests.slice(failed)
    const ids = new Set(taken.map(({ headers }) => headers['webhook-id']))
    const attempts = all.map(({ status }) => status?.attemptCount ?? 0)
    tellFigures('long-outage', {
      hours: OUTAGE_MS / 60 / MINUTE,
      events: EVENTS,
      delivered: all.filter(({ status }) => status?.state === 'succeeded').length,
      'requests that failed meanwhile': failed,
      'requests beyond one each afterwards': taken.length - ids.size,
      'most attempts of one': Math.max(...attempts),
      'most at a time': most,
      'allowed at a time': CONCURRENCY,
    })
    expect(all.map(({ status }) => status?.state)).toEqual(all.map(() => 'succeeded'))
    expect(taken).toHaveLength(EVENTS)
    expect(most).toBeLessThanOrEqual(CONCURRENCY)
  },
  LIMIT_MS * 2,
)
