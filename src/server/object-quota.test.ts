import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import { fc } from '../../test/support/fast-check.ts'
import { calling, FaultyApi } from '../../test/support/faulty-api.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { leases, RESERVATION_LABEL } from '../apis/core-kinds.ts'
import { webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError, type ResourceReader, type ResourceWriter } from '../kube/client.ts'
import { ObjectQuota, removeExpiredReservationsForever } from './object-quota.ts'

const ACME = 'acme'
const SYSTEM = 'davit-system'
const MINUTE = 60_000
const nothing = () => undefined

/** REST servers on one store, each of which knows only the endpoints that it has made itself. */
class Servers {
  readonly clock = new FakeClock()
  readonly store = new MemoryStore(() => this.clock.now())
  readonly api = new FaultyApi(this.store)
  readonly warned: string[] = []
  readonly max: number
  /** The most endpoints that there ever were. */
  most = 0
  #made = 0

  constructor(max: number) {
    this.max = max
  }

  server(how: { knowsAll?: boolean; resources?: ResourceReader & ResourceWriter } = {}) {
    const { store, clock } = this
    const resources = how.resources ?? this.api
    const known: string[] = []
    const quota = new ObjectQuota({
      code: 'too_many_endpoints',
      noun: 'endpoint',
      type: webhookEndpoints,
      max: this.max,
      resources,
      namespace: SYSTEM,
      known: () => known,
      knowsAll: () => how.knowsAll ?? false,
      clock,
      log: { info: nothing, warn: (_event, message) => void this.warned.push(message), error: nothing },
    })
    return {
      known,
      create: (name = this.#name(), meanwhile: () => Promise<unknown> = async () => undefined) =>
        quota.during(ACME, async (ticket) => {
          ticket.take()
          await ticket.reserve(name)
          await meanwhile()
          await ticket.reserve(name)
          const metadata = { namespace: ACME, name }
          const created = await resources.create(webhookEndpoints, { kind: 'WebhookEndpoint', metadata })
          this.most = Math.max(this.most, store.all(webhookEndpoints).length)
          known.push(name)
          ticket.giveBack()
          return created
        }),
    }
  }

  /** As each REST server does. */
  sweep(signal: AbortSignal): Promise<void> {
    const log = { info: nothing, warn: nothing, error: nothing }
    return removeExpiredReservationsForever(
      { resources: this.api, namespace: SYSTEM, clock: this.clock, log },
      signal,
    )
  }

  get reserved(): string[] {
    return this.store.all(leases).map(({ metadata }) => metadata.name)
  }

  #name(): string {
    this.#made += 1
    return `endpoint-${this.#made}`
  }
}

/** Calls take some turns until they have their effect, and some until they are answered. */
function slow(store: MemoryStore, turns: () => number): ResourceReader & ResourceWriter {
  return new Proxy(store, {
    get: (target, name) => {
      const member = Reflect.get(target, name, target) as (...given: unknown[]) => Promise<unknown>
      return async (...given: unknown[]) => {
        await settle(turns())
        const outcome = member.apply(target, given).then(
          (value) => ({ value }),
          (error: unknown) => ({ error }),
        )
        const known = await outcome
        await settle(turns())
        if ('error' in known) throw known.error
        return known.value
      }
    },
  })
}

test('of creates through several servers at a time, no more are made than the limit allows, and none is refused for nothing', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.integer({ min: 1, max: 4 }),
      fc.array(fc.record({ server: fc.nat(2), after: fc.nat(30) }), { minLength: 1, maxLength: 10 }),
      fc.infiniteStream(fc.nat(4)),
      async (max, creates, turns) => {
        const servers = new Servers(max)
        const resources = slow(servers.store, () => turns.next().value ?? 0)
        const all = [0, 1, 2].map(() => servers.server({ resources }))
        const codes = await Promise.all(
          creates.map(async ({ server, after }) => {
            await settle(after)
            return await codeOf(all[server]?.create() ?? Promise.reject(new Error('no server')))
          }),
        )
        const made = codes.filter((code) => code === 'answered').length
        expect(servers.most).toBe(made)
        expect(made).toBe(Math.min(max, creates.length))
        expect(new Set(codes.filter((code) => code !== 'answered'))).toEqual(
          new Set(made < codes.length ? ['too_many_endpoints'] : []),
        )
        expect(servers.reserved).toEqual([])
      },
    ),
    { numRuns: 150 },
  )
})

test('what was deleted makes room at once, at every server', async () => {
  const servers = new Servers(2)
  const [a, b] = [servers.server(), servers.server()]
  await a.create('one')
  await b.create('two')
  expect(await codeOf(a.create())).toBe('too_many_endpoints')
  await servers.store.delete(webhookEndpoints, { namespace: ACME, name: 'two' })
  expect(await codeOf(a.create())).toBe('answered')
  expect(await codeOf(b.create())).toBe('too_many_endpoints')
})

test('far from the limit, the endpoints are not listed where all are known', async () => {
  const servers = new Servers(500)
  const lists = () => servers.api.calls.filter(calling('list', webhookEndpoints)).length
  await servers.server({ knowsAll: true }).create()
  expect(lists()).toBe(0)
  await servers.server({ knowsAll: false }).create()
  expect(lists()).toBe(1)
  const near = servers.server({ knowsAll: true })
  near.known.push(...Array.from({ length: 400 }, (_, at) => `known-${at}`))
  await near.create()
  expect(lists()).toBe(2)
})

describe('a reservation', () => {
  test('counts for other servers before there is an endpoint, and not when its create failed', async () => {
    const servers = new Servers(1)
    const [a, b] = [servers.server(), servers.server()]
    const gate = Promise.withResolvers<void>()
    const first = codeOf(a.create('one', () => gate.promise))
    await settle()
    expect(servers.store.all(leases)).toMatchObject([
      {
        metadata: {
          name: 'davit-api-webhookendpoints-one',
          labels: { [RESERVATION_LABEL]: 'webhookendpoints' },
        },
      },
    ])
    await expect(b.create()).rejects.toMatchObject({
      code: 'too_many_endpoints',
      detail: 'The organization has 1 endpoint, and the limit is 1. Delete one first.',
    })
    gate.reject(new ApiError('Forbidden', 'no'))
    expect(await first).not.toBe('answered')
    expect(await codeOf(b.create())).toBe('answered')
    expect(servers.reserved).toEqual([])
  })

  test('counts once with its endpoint, where nobody knows whether that was made', async () => {
    const servers = new Servers(2)
    const server = servers.server()
    const away = new ApiError('Unavailable', 'no answer')
    servers.api.fail(calling('create', webhookEndpoints), { after: away })
    expect(await codeOf(server.create())).toBe('unavailable')
    servers.api.fail(calling('create', webhookEndpoints), { before: away })
    expect(await codeOf(server.create())).toBe('unavailable')
    expect(await codeOf(server.create())).toBe('answered')
    expect(await codeOf(server.create())).toBe('too_many_endpoints')
  })

  test('of a server that died is taken over by the repeat of its request', async () => {
    const servers = new Servers(1)
    const [a, b] = [servers.server(), servers.server()]
    void a.create('one', () => new Promise(nothing))
    await settle()
    await servers.clock.elapse(MINUTE / 2)
    expect(await codeOf(b.create('two'))).toBe('too_many_endpoints')
    expect(await codeOf(b.create('one'))).toBe('answered')
    expect(servers.reserved).toEqual([])
  })

  test('of a server that died ends after three minutes', async () => {
    const servers = new Servers(1)
    void servers.server().create('three', () => new Promise(nothing))
    await settle()
    const c = servers.server()
    await servers.clock.elapse(3 * MINUTE - 1000)
    expect(await codeOf(c.create('four'))).toBe('too_many_endpoints')
    await servers.clock.elapse(1000)
    expect(await codeOf(c.create('four'))).toBe('answered')
    expect(servers.reserved).toEqual(['davit-api-webhookendpoints-three'])
  })

  test('of a server that died is removed a minute later at most, though nothing else is created', async () => {
    const servers = new Servers(3)
    const stopping = new AbortController()
    const sweeping = servers.sweep(stopping.signal)
    void servers.server().create('three', () => new Promise(nothing))
    await servers.clock.elapse(2 * MINUTE)
    void servers.server().create('four', () => new Promise(nothing))
    await servers.clock.elapse(MINUTE - 1000)
    expect(servers.reserved).toHaveLength(2)
    await servers.clock.elapse(MINUTE)
    expect(servers.reserved).toEqual(['davit-api-webhookendpoints-four'])
    servers.api.fail(calling('list', leases), { before: new ApiError('Unavailable', 'away', { status: 0 }) })
    await servers.clock.elapse(MINUTE)
    await servers.clock.elapse(MINUTE)
    expect(servers.reserved).toEqual([])
    stopping.abort()
    await servers.clock.elapse(MINUTE)
    await sweeping
  })

  test.each([2, 4, 60])('replaces that of a dead server if it is %i minutes old', async (minutes) => {
    const servers = new Servers(1)
    void servers.server().create('one', () => new Promise(nothing))
    await settle()
    await servers.clock.elapse(minutes * MINUTE)
    expect(await codeOf(servers.server().create('one'))).toBe('answered')
    expect(servers.reserved).toEqual([])
  })

  test('that has become old makes nothing', async () => {
    const servers = new Servers(1)
    const slow = codeOf(servers.server().create('one', () => servers.clock.elapse(MINUTE)))
    expect(await slow).toBe('overloaded')
    expect(servers.store.all(webhookEndpoints)).toEqual([])
    expect(servers.reserved).toEqual([])
  })

  test.each(['Forbidden', 'Quota', 'Terminating', 'NotFound'] as const)(
    'that the namespace of Davit does not take is no word on the organization: %s',
    async (kind) => {
      for (const verb of ['create', 'list'] as const) {
        const servers = new Servers(1)
        servers.api.fail(calling(verb, leases), { before: new ApiError(kind, 'no') })
        await expect(servers.server().create()).rejects.toMatchObject({ code: 'overloaded', retryAfter: 1 })
        expect(servers.reserved).toEqual([])
      }
    },
  )

  test('that cannot be removed is told of, and expires', async () => {
    const servers = new Servers(1)
    servers.api.fail(calling('delete', leases), { before: new ApiError('Unavailable', 'no answer') })
    expect(await codeOf(servers.server().create())).toBe('answered')
    expect(servers.warned).toEqual(['failed to remove a reservation; it expires'])
    expect(servers.reserved).toHaveLength(1)
  })
})
