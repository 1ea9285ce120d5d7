import { describe, expect, it } from 'vitest'
import { EngineBed, ORGANIZATION } from '../../../test/support/engine-bed.ts'
import { calling } from '../../../test/support/faulty-api.ts'
import { VIEW_LABEL } from '../../apis/meta.ts'
import { outcomeSegments } from '../../apis/outcome-segment.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { webhookEndpoint, webhookEndpoints } from '../../apis/webhook-endpoint.ts'
import { ApiError } from '../../kube/client.ts'

const UNAVAILABLE = new ApiError('Unavailable', 'no answer')
const SECOND = 1000
const MINUTE = 60 * SECOND
const HOUR = 60 * MINUTE

function statesOf(bed: EngineBed): unknown[] {
  return bed.objects.map(({ status }) => (status as { state?: string } | undefined)?.state)
}

function objectsTo(bed: EngineBed, endpoint: string) {
  return bed.objects.filter(({ spec }) => (spec as { endpoint?: string }).endpoint === endpoint)
}

/** The endpoint's status says that deliveries have been exhausted. */
async function failing(bed: EngineBed, name: string, status: object) {
  const patched = await bed.store.patch(
    webhookEndpoints,
    { namespace: 'acme', name },
    { status: { consecutiveFailures: 3, failingSince: new Date(bed.clock.now()).toISOString(), ...status } },
    { subresource: 'status' },
  )
  bed.directory.apply(webhookEndpoint.parse(patched))
}

it('nothing waits for a time of a clock that was ahead, and was mended while that was being stored', async () => {
  const bed = new EngineBed()
  const endpoint = await bed.endpoint('one')
  bed.sender.answers.set('/one', 500)
  bed.start()
  bed.clock.setWallBy(HOUR)
  const stored = Promise.withResolvers<void>()
  bed.api.fail(calling('create', webhookDeliveries), { hold: stored.promise })
  await bed.accept(bed.event([endpoint]))
  await bed.elapse(SECOND)
  bed.clock.setWallBy(-HOUR)
  stored.resolve()
  await bed.elapse(5 * MINUTE + SECOND)
  expect(bed.begun('one')).toHaveLength(2)
})

describe('what a store that fails for a while does to an outcome', () => {
  it('starts what became due meanwhile once outcomes can be stored, though nothing else happens then', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.start()
    const isBack = Promise.withResolvers<void>()
    bed.api.fail(calling('create', outcomeSegments), { hold: isBack.promise })
    void bed.engine.ctx.outcomes.record({ kind: 'calm', shards: [1] })
    await bed.elapse(6 * SECOND)
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(SECOND)
    expect(bed.begun('one')).toEqual([])
    isBack.resolve()
    await bed.elapse(SECOND)
    expect(bed.begun('one')).toHaveLength(1)
  })

  it('stores a success late when the end of the streak could not be written at first', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { ordered: true })
    await failing(bed, 'one', {})
    bed.sender.answers.set('/one', 200)
    bed.api.fail(calling('patch', webhookEndpoints), { before: UNAVAILABLE }, 3)
    bed.start()
    const [first, second] = await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
    await bed.elapse(30 * SECOND)
    expect(bed.begun('one')).toEqual([first, second])
    expect(statesOf(bed)).toEqual(['succeeded', 'succeeded'])
    expect(bed.segments.size).toBe(0)
  })

  it('counts and stores an exhausted delivery late, once', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { ordered: true })
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(20 * MINUTE)
    expect(bed.begun('one')).toHaveLength(7)
    bed.api.fail(calling('patch', webhookEndpoints), { after: UNAVAILABLE }, 2)
    bed.api.fail(calling('patch', webhookEndpoints), { before: UNAVAILABLE }, 2)
    await bed.elapse(10 * MINUTE)
    expect(bed.begun('one')).toHaveLength(8)
    expect(statesOf(bed)).toEqual(['exhausted'])
    expect(bed.directory.get('acme', 'one')?.endpoint.status?.consecutiveFailures).toBe(1)
  })

  it('stores an outcome although the object that shows the delivery cannot be read at first', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { ordered: true })
    bed.start()
    await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
    // It hangs, so that it gets its object meanwhile.
    await bed.elapse(5 * SECOND)
    expect(statesOf(bed)).toEqual(['pending', 'pending'])
    bed.api.fail(calling('get', webhookDeliveries), { before: UNAVAILABLE }, 5)
    bed.underWay[0]?.end(200)
    await bed.elapse(30 * SECOND)
    expect(statesOf(bed)).toHaveLength(2)
    expect(statesOf(bed)).toContain('succeeded')
    expect(bed.sender.attempts).toHaveLength(2)
  })

  it('lets a delivery go whose object was deleted while its attempt was under way', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { ordered: true })
    bed.start()
    const [, second] = await bed.accept(bed.event([endpoint]), bed.event([endpoint]))
    await bed.elapse(5 * SECOND)
    const [id] = bed.begun('one')
    const object = bed.objects.find(({ metadata }) => id?.endsWith(metadata.name.slice(0, 26)))
    await bed.store.delete(webhookDeliveries, { namespace: 'acme', name: object?.metadata.name ?? '' })
    bed.underWay[0]?.end(200)
    await bed.elapse(5 * SECOND)
    expect(bed.begun('one').at(-1)).toBe(second)
    expect(bed.engine.counters.total).toBe(1)
  })

  it('repeats no attempt in the same process, whatever the store does', async () => {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    const two = await bed.endpoint('two')
    bed.sender.answers.set('/one', 200).set('/two', 200)
    bed.start()
    let calls = 0
    // Every other write fails, one half of them after it was done.
    bed.api.fail(
      ({ verb }) => verb !== 'get' && verb !== 'list' && ++calls % 2 === 0 && calls % 4 === 0,
      { after: UNAVAILABLE },
      1000,
    )
    bed.api.fail(({ verb }) => verb !== 'get' && calls % 4 === 2, { before: UNAVAILABLE }, 1000)
    for (let i = 0; i < 20; i += 1) await bed.accept(bed.event([one, two]))
    await bed.elapse(2 * MINUTE)
    expect(bed.begun('one')).toHaveLength(20)
    expect(bed.begun('two')).toHaveLength(20)
    expect(statesOf(bed)).toEqual(Array.from({ length: 40 }, () => 'succeeded'))
    expect(bed.segments.size).toBe(0)
    expect(bed.engine.counters.total).toBe(0)
  })
})

describe('an entry whose object may not be made', () => {
  const QUOTA = new ApiError('Quota', 'exceeded quota: deliveries')

  it('is a success where it was answered, though nothing shows it', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    bed.api.fail(calling('create', webhookDeliveries), { before: QUOTA }, 10_000)
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(MINUTE)
    expect(bed.ended.map(({ state }) => state)).toEqual(['succeeded'])
    expect(bed.segments.size).toBe(0)
  })

  it('gets one with every attempt, and no view, where it succeeds after a failure', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 503)
    const refused = bed.api.fail(calling('create', webhookDeliveries), { before: QUOTA }, 10_000)
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(SECOND)
    bed.sender.answers.set('/one', 200)
    await bed.elapse(20 * SECOND)
    refused()
    await bed.elapse(MINUTE)
    expect(bed.objects).toMatchObject([{ status: { state: 'succeeded', attemptCount: 2 } }])
    expect(bed.objects[0]?.metadata.labels).not.toHaveProperty([VIEW_LABEL])
    expect(bed.segments.size).toBe(0)
  })

  it('is a success in a namespace that is ending, too', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.sender.answers.set('/one', 200)
    const terminating = new ApiError('Terminating', 'the namespace is being terminated')
    bed.api.fail(calling('create', webhookDeliveries), { before: terminating }, 10_000)
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(MINUTE)
    expect(bed.ended.map(({ state }) => state)).toEqual(['succeeded'])
    expect(bed.segments.size).toBe(0)
  })

  it('does not keep the API server busy with what it refuses', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { state: 'disabled' })
    bed.api.fail(calling('create', webhookDeliveries), { before: QUOTA }, 100_000)
    bed.start()
    await bed.accept(...Array.from({ length: 100 }, () => bed.event([endpoint])))
    await bed.elapse(5 * MINUTE)
    const tries = bed.api.calls.filter(calling('create', webhookDeliveries)).length
    expect(tries).toBeGreaterThan(100)
    expect(tries).toBeLessThan(1500)
  })
})

describe('a backlog that is held', () => {
  it('gets its objects few at a time, and others are not held up by that', async () => {
    const bed = new EngineBed()
    const held = await bed.endpoint('held', { state: 'disabled' })
    const good = await bed.endpoint('good')
    bed.sender.answers.set('/good', 200)
    bed.start()
    const gate = Promise.withResolvers<void>()
    bed.api.fail(calling('create', webhookDeliveries), { hold: gate.promise }, 100_000)
    for (let i = 0; i < 5; i += 1) await bed.accept(...Array.from({ length: 1000 }, () => bed.event([held])))
    await bed.elapse(5 * SECOND)
    const creates = () => bed.api.calls.filter(calling('create', webhookDeliveries)).length
    expect(creates()).toBeGreaterThan(0)
    expect(creates()).toBeLessThan(100)
    const [id] = await bed.accept(bed.event([good]))
    await bed.elapse(SECOND)
    expect(bed.begun('good')).toEqual([id])
    gate.resolve()
    await bed.elapse(MINUTE)
    expect(objectsTo(bed, 'held')).toHaveLength(5000)
    expect(bed.segments.size).toBe(0)
  })
})

describe('what waits to be stored', () => {
  it('keeps its own endpoint from sending more, and no other', async () => {
    const bed = new EngineBed()
    const busy = await bed.endpoint('busy')
    const good = await bed.endpoint('good')
    bed.sender.answers.set('/good', 200).set('/busy', 500)
    const gate = Promise.withResolvers<void>()
    bed.api.fail(calling('create', webhookDeliveries), { hold: gate.promise }, 100_000)
    bed.start()
    for (let i = 0; i < 2; i += 1) await bed.accept(...Array.from({ length: 1000 }, () => bed.event([busy])))
    await bed.elapse(SECOND)
    expect(bed.begun('busy').length).toBeGreaterThan(200)
    expect(bed.begun('busy').length).toBeLessThan(600)
    await bed.accept(...Array.from({ length: 1000 }, () => bed.event([good])))
    await bed.elapse(SECOND)
    expect(bed.begun('good')).toHaveLength(1000)
    gate.resolve()
    await bed.elapse(MINUTE)
    expect(new Set(bed.begun('busy'))).toHaveLength(2000)
    expect(objectsTo(bed, 'busy')).toHaveLength(2000)
    expect(bed.engine.counters.total).toBe(2000)
  })

  it('leaves connections for the log', async () => {
    const bed = new EngineBed()
    const gate = Promise.withResolvers<void>()
    const calls = () => bed.api.calls.filter(({ plural }) => plural === 'webhookdeliveries').length
    bed.api.fail(({ plural }) => plural === 'webhookdeliveries', { hold: gate.promise }, 100_000)
    bed.start()
    for (let i = 0; i < 10; i += 1) {
      const endpoint = await bed.endpoint(`endpoint-${i}`)
      bed.sender.answers.set(`/endpoint-${i}`, 500)
      await bed.accept(...Array.from({ length: 20 }, () => bed.event([endpoint])))
    }
    await bed.elapse(SECOND)
    expect(bed.sender.attempts).toHaveLength(200)
    expect((await bed.records()).filter(({ kind }) => kind === 'failed')).toHaveLength(200)
    // Two of 24 are left to other organizations.
    expect(calls()).toBe(22)
    gate.resolve()
    await bed.elapse(SECOND)
    expect(bed.objects).toHaveLength(200)
  })

  it('keeps the place of a retry, so that no more than the endpoint allows are unknown after a crash', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one', { concurrency: 4 })
    bed.sender.answers.set('/one', 500)
    bed.start()
    await bed.accept(...Array.from({ length: 50 }, () => bed.event([endpoint])))
    await bed.elapse(5 * SECOND)
    expect(bed.begun('one')).toHaveLength(50)
    bed.sender.answers.set('/one', 200)
    const gate = Promise.withResolvers<void>()
    bed.api.fail(calling('patch', webhookDeliveries), { hold: gate.promise }, 100_000)
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(54)
    gate.resolve()
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(100)
  })
})

describe('what the plane says of itself', () => {
  it('counts an endpoint as a lane only while it has deliveries that have not ended', async () => {
    const bed = new EngineBed()
    const endpoint = await bed.endpoint('one')
    bed.start()
    await bed.accept(bed.event([endpoint]))
    await bed.elapse(SECOND)
    expect(bed.engine.stats().lanes).toBe(1)
    bed.underWay[0]?.end(200)
    await bed.elapse(SECOND)
    expect(bed.engine.stats().lanes).toBe(0)
  })
})

describe('the version in which an object shows its end is known', () => {
  const isStatus = calling('patch', webhookDeliveries)

  it.each([
    { what: 'it is written', answers: [] },
    { what: 'the answer to the write is lost', answers: [UNAVAILABLE] },
  ])('when $what', async ({ answers }) => {
    const { bed, name } = await retried()
    for (const after of answers) bed.api.fail(isStatus, { after })
    await bed.elapse(MINUTE)
    expect(bed.endVersions.get(name)).toBe(bed.objects[0]?.metadata.resourceVersion)
  })

  it('when it has ended before its next attempt', async () => {
    const { bed, name } = await retried()
    const { name: object = '' } = bed.objects[0]?.metadata ?? {}
    const status = { state: 'canceled', completedAt: new Date(bed.clock.now()).toISOString() }
    const ref = { namespace: ORGANIZATION, name: object }
    await bed.store.patch(webhookDeliveries, ref, { status }, { subresource: 'status' })
    await bed.elapse(MINUTE)
    expect(bed.begun('one')).toHaveLength(1)
    expect(bed.endVersions.get(name)).toBe(bed.objects[0]?.metadata.resourceVersion)
  })

  /** A delivery that has failed once, and whose next attempt succeeds. */
  async function retried() {
    const bed = new EngineBed()
    const one = await bed.endpoint('one')
    bed.sender.answers.set('/one', 500)
    bed.start()
    const [id = ''] = await bed.accept(bed.event([one]))
    await bed.elapse(5000)
    bed.sender.answers.set('/one', 200)
    return { bed, name: id.slice('msg_'.length) }
  }
})
