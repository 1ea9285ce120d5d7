import { expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import { ApiError } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import { parseConfig } from './config.ts'
import { LeaderTasks } from './controller.ts'
import type { ControllerDependencies } from './dependencies.ts'
import type { WebhookControllers } from './webhook-controllers.ts'

const nothing = () => undefined

function bed() {
  const clock = new FakeClock()
  const organizations = new Organizations()
  const state = { holds: true, answers: true }
  const created: string[] = []
  const told: string[] = []
  const api: ControllerDependencies['api'] = {
    get: () => Promise.reject(new ApiError('NotFound', 'none')),
    list: async () => {
      if (!state.answers) throw new ApiError('Unavailable', 'no answer')
      return { items: [], resourceVersion: '7' }
    },
    create: async (_type, object) => {
      created.push(object.metadata.name)
      return object
    },
    patch: () => Promise.reject(new ApiError('NotFound', 'none')),
    delete: async () => undefined,
    async *watch(_type, _query, _version, signal) {
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      yield []
    },
  }
  const metrics = new Proxy({} as ControllerDependencies['metrics'], { get: () => nothing })
  const log = { info: nothing, warn: nothing, error: nothing }
  const parts = {
    organizations,
    catalogue: { get: nothing },
    keyStore: { removeAbandoned: async () => void told.push('sweep') },
    retention: {
      followLog: async () => void told.push('follow'),
      leaveLog: () => void told.push('leave'),
    },
  } as unknown as WebhookControllers
  const singletons = new LeaderTasks({
    config: parseConfig({ DAVIT_REPLICA: 'one' }),
    world: {
      api,
      clock,
      random: fixedRandom(),
      log,
      metrics,
      events: { record: nothing },
    } as unknown as ControllerDependencies,
    parts,
    replica: { ownershipCheck: () => () => state.holds },
    observedVersion: () => Number.POSITIVE_INFINITY,
    installationKey: new Uint8Array(32),
  })
  return { clock, state, singletons, created, told, organizations }
}

it('follows the log and makes what is missing when all that it looks at is known, and leaves the log at its end', async () => {
  const { singletons, created, told } = bed()
  expect([singletons.running, singletons.watches]).toEqual([undefined, []])
  await singletons.start()
  await settle()
  expect(told).toEqual(['follow', 'sweep'])
  expect(created.length).toBeGreaterThan(0)
  expect(singletons.watches.length).toBeGreaterThan(0)
  await singletons.stop()
  expect(told).toEqual(['follow', 'sweep', 'leave'])
  expect([singletons.running, singletons.watches]).toEqual([undefined, []])
})

it('stopped before all is known, it begins nothing, and can be started again', async () => {
  const { singletons, state, created, told, clock } = bed()
  state.answers = false
  const started = singletons.start()
  await clock.elapse(1000)
  await singletons.stop()
  await started
  expect([created, told, singletons.running]).toEqual([[], ['leave'], undefined])
  state.answers = true
  await singletons.start()
  expect(singletons.running).toBeDefined()
  await singletons.stop()
})

it('writes nothing when another replica may have had its shard since it was started', async () => {
  const { singletons, state, created } = bed()
  state.holds = false
  await singletons.start()
  await settle()
  expect(created).toEqual([])
  await singletons.stop()
})

it('leaves no listener behind, however often it is started', async () => {
  const { singletons, organizations } = bed()
  const listeners: unknown[] = []
  const whileMaking = organizations.whileMaking.bind(organizations)
  organizations.whileMaking = (make) => {
    const { made, forget } = whileMaking(make)
    listeners.push(forget)
    return { made, forget: () => void listeners.splice(listeners.indexOf(forget), 1) }
  }
  for (let n = 0; n < 3; n += 1) {
    await singletons.start()
    expect(listeners).toHaveLength(1)
    await singletons.stop()
  }
  expect(listeners).toEqual([])
})
