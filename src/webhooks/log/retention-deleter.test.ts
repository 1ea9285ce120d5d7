import { expect, it } from 'vitest'
import { MemoryStore } from '../../../test/support/memory-store.ts'
import { API_VERSION } from '../../apis/meta.ts'
import { webhookDeliveries } from '../../apis/webhook-delivery.ts'
import { PayloadRefVerifier } from './retention-deleter.ts'
import { PayloadRefs } from './retention-index.ts'

async function bed() {
  const store = new MemoryStore(() => 0)
  const refs = new PayloadRefs()
  const asked: string[] = []
  const check = new PayloadRefVerifier(
    {
      get: (type, ref) => {
        asked.push(ref.name)
        return store.get(type, ref)
      },
      list: (...args) => store.list(...args),
      create: (type, object) => store.create(type, object),
      patch: (...args) => store.patch(...args),
      delete: (type, ref, precondition) => store.delete(type, ref, precondition),
    },
    refs,
  )
  return { store, refs, asked, check }
}

async function put(store: MemoryStore, name: string, state?: string): Promise<void> {
  await store.create(webhookDeliveries, {
    apiVersion: API_VERSION,
    kind: 'WebhookDelivery',
    metadata: { namespace: 'acme', name },
    spec: { endpoint: 'one', endpointUid: 'u', deliveryId: 'msg', position: '1/0', writtenAt: '' },
  })
  const how = { subresource: 'status' } as const
  if (state) await store.patch(webhookDeliveries, { namespace: 'acme', name }, { status: { state } }, how)
}

const keep = (name: string, version = 1) => ({ name, version, evict: false })
const evict = (name: string, version = 1) => ({ name, version, evict: true })

it('finds what is gone behind any number of those that stay, and asks for none twice before all were asked for', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 50; n += 1) {
    await put(store, `held-${n}`)
    refs.hold(`acme/held-${n}`, 'old')
  }
  refs.hold('acme/gone', 'young')
  const segments = [keep('old', 1), keep('young', 2)]
  for (let look = 0; look < 3; look += 1) await check.verify(segments, look)
  expect(refs.holders('young')).toBe('none')
  expect(asked.indexOf('gone')).toBe(50)
  expect(new Set(asked).size).toBe(asked.length)
  expect(refs.holders('old')).toBe('unfinished')
})

it('passes over none when those before it turn out to be gone', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 45; n += 1) {
    if (n % 2 === 1) await put(store, `one-${n}`)
    refs.hold(`acme/one-${n}`, 'segment')
  }
  for (let look = 0; look < 3; look += 1) await check.verify([keep('segment')], look)
  expect(new Set(asked).size).toBe(45)
  expect(refs.size).toBe(22)
})

it('rests for a minute after each round, and where space is needed after one that won none', async () => {
  const { store, refs, asked, check } = await bed()
  await put(store, 'one')
  refs.hold('acme/one', 'segment')
  const look = async (segment: ReturnType<typeof keep>, ...times: number[]) => {
    const before = asked.length
    for (const now of times) await check.verify([segment], now)
    return asked.length - before
  }
  expect(await look(keep('segment'), 0, 5000, 59_999)).toBe(1)
  expect(await look(evict('segment'), 10_000, 15_000, 69_999)).toBe(1)
  expect(await look(keep('segment'), 60_000)).toBe(1)
  expect(await look(evict('segment'), 70_000)).toBe(1)
})

it('asks for few at a time, for more where space is needed, and for so many that each has its turn in ten minutes', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 3000; n += 1) {
    await put(store, `one-${n}`, 'succeeded')
    refs.hold(`acme/one-${n}`, `segment-${Math.floor(n / 100)}`)
  }
  const segments = (make: typeof keep, count: number) =>
    Array.from({ length: count }, (_, n) => make(`segment-${n}`, n + 1))
  await check.verify(segments(keep, 10), 0)
  expect(asked).toHaveLength(20)
  await check.verify(segments(evict, 10), 0)
  expect(asked).toHaveLength(220)
  await check.verify(segments(keep, 30), 0)
  expect(asked).toHaveLength(244)
})

it('asks for those of the segment whose space is needed at once, however far its round among the others is', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 50; n += 1) {
    await put(store, `held-${n}`)
    refs.hold(`acme/held-${n}`, 'old')
  }
  await put(store, 'ended', 'succeeded')
  refs.hold('acme/ended', 'young')
  await check.verify([keep('old', 1), keep('young', 2)], 0)
  await check.verify([evict('young', 2), keep('old', 1)], 1)
  expect(asked.at(20)).toBe('ended')
  expect(refs.holders('young')).toBe('none')
})

it('lets finished deliveries go where their space is needed, if all that refer to it have finished', async () => {
  const { store, refs, check } = await bed()
  for (const state of ['succeeded', 'exhausted', 'pending']) {
    await put(store, state, state)
    refs.hold(`acme/${state}`, 'segment')
  }
  await check.verify([keep('segment')], 0)
  await check.verify([evict('segment')], 0)
  expect(store.all(webhookDeliveries)).toHaveLength(3)
  await store.delete(webhookDeliveries, { namespace: 'acme', name: 'pending' })
  await check.verify([evict('segment')], 60_000)
  expect(store.all(webhookDeliveries)).toEqual([])
  expect(refs.holders('segment')).toBe('none')
})

it('tells whether another look would win more, and rests where what has finished cannot be deleted', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 210; n += 1) {
    await put(store, `one-${n}`, 'succeeded')
    refs.hold(`acme/one-${n}`, `segment-${Math.floor(n / 100)}`)
  }
  const segments = [1, 2, 3].map((n) => evict(`segment-${n - 1}`, n))
  expect(await check.verify(segments, 0)).toBe(true)
  expect(store.all(webhookDeliveries)).toHaveLength(10)
  store.delete = () => Promise.reject(new Error('a policy says no'))
  expect(await check.verify(segments, 0)).toBe(false)
  expect(await check.verify(segments, 500)).toBe(false)
  await check.verify(segments, 501)
  expect(asked.length).toBe(220)
})

it('asks for no more of a segment once one of it stays', async () => {
  const { store, refs, asked, check } = await bed()
  for (let n = 0; n < 100; n += 1) {
    await put(store, `one-${n}`, n === 20 ? 'retrying' : 'succeeded')
    refs.hold(`acme/one-${n}`, 'segment')
  }
  expect(await check.verify([evict('segment')], 0)).toBe(false)
  expect(asked).toHaveLength(32)
  expect(store.all(webhookDeliveries)).toHaveLength(100)
})

it('holds what could not be looked at', async () => {
  const refs = new PayloadRefs()
  const store = new MemoryStore(() => 0)
  const fail = () => Promise.reject(new Error('no answer'))
  const check = new PayloadRefVerifier(Object.assign(store, { get: fail }), refs)
  refs.hold('acme/one', 'segment')
  await check.verify([keep('segment')], 0)
  expect(refs.holders('segment')).toBe('unfinished')
})
