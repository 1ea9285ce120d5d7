import { expect, it } from 'vitest'
import { FakeClock, fixedRandom, settle } from '../../test/support/fake-clock.ts'
import { ApiError } from '../kube/client.ts'
import { Organizations } from '../kube/organizations.ts'
import { EventTypeStore } from '../webhooks/endpoints/event-types.ts'
import { parseConfig } from './config.ts'
import type { WebhookControllers } from './controller.ts'
import type { ControllerDependencies } from './dependencies.ts'
import { LeaderTasks } from './leader-tasks.ts'

const nothing = () => undefined

function bed() {
  const clock = new FakeClock()
  const organizations = new Organizations()
  const state = { holds: true, answers: true }
  const created: string[] = []
  const calls: string[] = []
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
  const catalogue = new EventTypeStore()
  const webhooks = {
    organizations,
    catalogue,
    keyStore: { removeAbandoned: async () => void calls.push('sweep') },
    watches: { log: { version: Number.POSITIVE_INFINITY } },
    retention: {
      followLog: async () => void calls.push('follow'),
      leaveLog: () => void calls.push('leave'),
    },
  } as unknown as WebhookControllers
  const tasks = new LeaderTasks({
    config: parseConfig({ DAVIT_REPLICA: 'one' }),
    dependencies: {
      api,
      clock,
      random: fixedRandom(),
      log,
      metrics,
      events: { record: nothing },
    } as unknown as ControllerDependencies,
    webhooks,
    replica: { ownershipCheck: () => () => state.holds },
    installationKey: new Uint8Array(32),
  })
  return { clock, state, tasks, created, calls, organizations, catalogue }
}

it('follows the log and makes what is missing when all that it looks at is known, and leaves the log at its end', async () => {
  const { tasks, created, calls } = bed()
  expect([tasks.running, tasks.watches]).toEqual([undefined, []])
  await tasks.start()
  await settle()
  expect(calls).toEqual(['follow', 'sweep'])
  expect(created.length).toBeGreaterThan(0)
  expect(tasks.watches.length).toBeGreaterThan(0)
  await tasks.stop()
  expect(calls).toEqual(['follow', 'sweep', 'leave'])
  expect([tasks.running, tasks.watches]).toEqual([undefined, []])
})

it('stopped before all is known, it begins nothing, and can be started again', async () => {
  const { tasks, state, created, calls, clock } = bed()
  state.answers = false
  const started = tasks.start()
  await clock.elapse(1000)
  await tasks.stop()
  await started
  expect([created, calls, tasks.running]).toEqual([[], ['leave'], undefined])
  state.answers = true
  await tasks.start()
  expect(tasks.running).toBeDefined()
  await tasks.stop()
})

it('writes nothing when another replica may have had its shard since it was started', async () => {
  const { tasks, state, created } = bed()
  state.holds = false
  await tasks.start()
  await settle()
  expect(created).toEqual([])
  await tasks.stop()
})

it('leaves no listener behind, however often it is started', async () => {
  const { tasks, organizations, catalogue } = bed()
  const listeners: unknown[] = []
  const whileMaking = organizations.whileMaking.bind(organizations)
  organizations.whileMaking = (make) => {
    const { made, forget } = whileMaking(make)
    listeners.push(forget)
    return { made, forget: () => void listeners.splice(listeners.indexOf(forget), 1) }
  }
  const listen = catalogue.listen.bind(catalogue)
  catalogue.listen = (listener) => {
    const forget = listen(listener)
    listeners.push(forget)
    return () => void listeners.splice(listeners.indexOf(forget), 1)
  }
  for (let n = 0; n < 3; n += 1) {
    await tasks.start()
    expect(listeners).toHaveLength(2)
    await tasks.stop()
  }
  expect(listeners).toEqual([])
})
