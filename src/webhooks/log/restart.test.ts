import { expect, test } from 'vitest'
import { EngineBed } from '../../../test/support/engine-bed.ts'
import { fc } from '../../../test/support/fast-check.ts'
import type { ApiCall } from '../../../test/support/faulty-api.ts'
import { logOn } from '../../../test/support/log-on.ts'
import { type AcceptedEvent, deliverySegments } from '../../apis/delivery-segment.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { deliveryOutline } from '../../apis/webhook-delivery.ts'
import { ApiError } from '../../kube/client.ts'
import { Retention } from './retention-loop.ts'

const MINUTE = 60_000
const HOUR = 60 * MINUTE
const DAY = 24 * HOUR

/** So tight that all goes that may go. */
const limits = {
  succeededMs: MINUTE,
  failedMs: 30 * DAY,
  maxFinishedPerEndpoint: 1,
  maxFinishedBytes: 4_000,
  maxLogBytes: 1,
}

const nothing = () => undefined

/** Retention as it would be after a start just now, until it finds nothing more. */
async function retain(bed: EngineBed): Promise<void> {
  const retention = new Retention({
    resources: bed.api,
    store: logOn(bed.api, bed),
    clock: bed.clock,
    log: { info: nothing, warn: nothing, error: nothing },
    limits,
    directory: bed.directory,
    lowWater: () => bed.segments.lowWater,
    isClosed: (position) => bed.segments.isClosed(position),
    healthy: () => true,
    cancelHeld: nothing,
    eventLog: { append: () => Promise.reject(new Error('there are no keys')) },
  })
  for (const raw of bed.objects) retention.objectFound(deliveryOutline.parse(raw))
  let read = false
  void retention
    .followLog(() => Number.POSITIVE_INFINITY)
    .then(() => {
      read = true
    })
  while (!read) await bed.elapse(50)
  for (let round = 0; round < 4; round += 1) {
    while ((await retention.pass()) < 1000) await bed.elapse(10)
    await bed.elapse(5000)
  }
  await retention.stop()
}

type Step =
  | 'accept'
  | 'accept large'
  | 'succeed'
  | 'one fails'
  | 'all fail'
  | 'pass ten minutes'
  | 'retain'
  | 'restart'

const step = fc.oneof(
  { weight: 4, arbitrary: fc.constantFrom<Step>('accept', 'accept large') },
  { weight: 4, arbitrary: fc.constantFrom<Step>('succeed', 'one fails') },
  { weight: 1, arbitrary: fc.constant<Step>('all fail') },
  { weight: 2, arbitrary: fc.constant<Step>('pass ten minutes') },
  { weight: 3, arbitrary: fc.constant<Step>('retain') },
  { weight: 2, arbitrary: fc.constant<Step>('restart') },
)

/** How often each delivery, by endpoint and id, was answered so. */
class Answers {
  readonly #counts = new Map<string, number>()

  async give(bed: EngineBed, codeFor: (path: string) => number): Promise<void> {
    for (const attempt of bed.underWay) {
      const code = codeFor(attempt.path)
      const key = `${code} ${attempt.path} ${attempt.id}`
      this.#counts.set(key, (this.#counts.get(key) ?? 0) + 1)
      attempt.end(code)
    }
    await bed.elapse(1000)
  }

  of(code: number, path: string, id: string): number {
    return this.#counts.get(`${code} ${path} ${id}`) ?? 0
  }
}

/** Whose deliveries wait in the log: its endpoint is disabled, and a quota rejects their objects. */
const WITHOUT_ROOM = 'without-room'

/** @returns a function that lifts the quota */
function rejectObjects(bed: EngineBed): () => void {
  const isRejected = ({ verb, body }: ApiCall) => verb === 'create' && namespaceOf(body) === WITHOUT_ROOM
  return bed.api.fail(isRejected, { before: new ApiError('Quota', 'exceeded quota: no-objects') }, 1_000_000)
}

function namespaceOf(body: object | undefined): string | undefined {
  return (body as { metadata?: { namespace?: string } } | undefined)?.metadata?.namespace
}

/** @param holdsMark whether an entry of another organization, which stays open, is in the segment of each event */
async function play(steps: readonly Step[], holdsMark = false) {
  let bed = new EngineBed()
  let lift = rejectObjects(bed)
  const held = await bed.endpoint('held', { state: 'disabled' }, WITHOUT_ROOM)
  const endpoints = [
    await bed.endpoint('objects'),
    await bed.endpoint('segments'),
    await bed.endpoint('ordered', { ordered: true }),
  ]
  bed.start()
  const accepted: string[] = []
  const answers = new Answers()
  const accept = async (event: AcceptedEvent) => {
    const [id = ''] = await bed.accept(event, ...(holdsMark ? [bed.event([held])] : []))
    accepted.push(id)
  }
  const acts: Record<Step, () => Promise<unknown>> = {
    accept: () => accept(bed.event(endpoints)),
    'accept large': async () => {
      const { event, targets } = bed.event(endpoints)
      const payload = event.payload.replace('"data":1', `"data":"${'x'.repeat(20_000)}"`)
      await accept({ event: { ...event, payload }, targets })
    },
    succeed: () => answers.give(bed, () => 200),
    'one fails': () => answers.give(bed, (path) => (path === '/objects' ? 503 : 200)),
    'all fail': () => answers.give(bed, () => 503),
    'pass ten minutes': () => bed.elapse(10 * MINUTE),
    retain: () => retain(bed),
    restart: async () => {
      bed = await bed.restarted((next) => {
        lift = rejectObjects(next)
      })
    },
  }
  for (const next of steps) {
    await acts[next]()
    await bed.elapse(300)
  }
  const finish = async () => {
    lift()
    for (let round = 0; round < 12 + accepted.length; round += 1) {
      await answers.give(bed, () => 200)
      await bed.elapse(10 * MINUTE)
    }
  }
  return { bed, finish, accepted, answers, paths: ['/objects', '/segments', '/ordered'] }
}

test('whatever retention deletes before a restart, nothing that succeeded is sent again, and nothing is lost', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.array(step, { minLength: 6, maxLength: 24 }),
      fc.boolean(),
      async (steps, holdsMark) => {
        const { finish, accepted, answers, paths } = await play(steps, holdsMark)
        await finish()
        for (const id of accepted) {
          for (const path of paths) {
            const successes = answers.of(200, path, id)
            const exhausted = answers.of(503, path, id) >= 8
            expect({ path, id, successes }).toEqual({ path, id, successes: exhausted ? 0 : 1 })
          }
        }
      },
    ),
    { numRuns: 100 },
  )
}, 60_000)

test('an entry that holds the mark keeps no object of another delivery, and none of those is sent again', async () => {
  const { bed, answers, accepted } = await play(['accept', 'one fails', 'pass ten minutes', 'succeed'], true)
  const before = bed.objects.length
  await bed.elapse(HOUR)
  await retain(bed)
  expect([before, bed.objects.length]).toEqual([3, 0])
  const next = await bed.restarted(rejectObjects)
  await next.elapse(MINUTE)
  expect(next.underWay).toEqual([])
  expect(answers.of(200, '/objects', accepted[0] ?? '')).toBe(1)
})

test('in the end nothing is left but the newest outcomes and what the bound on deliveries keeps', async () => {
  const steps: Step[] = ['accept', 'accept large', 'succeed', 'restart', 'accept', 'succeed']
  const { bed, finish } = await play(steps)
  await finish()
  await retain(bed)
  await retain(bed)
  expect(bed.store.all(deliverySegments)).toHaveLength(0)
  expect(bed.store.all(outcomeSegments)).toHaveLength(1)
  expect(bed.objects.length).toBeLessThanOrEqual(1)
})
