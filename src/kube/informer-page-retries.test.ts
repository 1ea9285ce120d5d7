/** Whoever asks for a new list decides on nothing that was read before, so it counts from then on, and no earlier one. */
import { describe, expect, it } from 'vitest'
import { settle } from '../../test/support/fake-clock.ts'
import { startReflector } from '../../test/support/reflector-bed.ts'

async function startedWith(...names: readonly string[]) {
  const world = startReflector()
  await world.reflector.synced
  for (const name of names) world.api.put(name)
  await settle()
  return world
}

describe('a reflector that is to read anew', () => {
  it('counts as read when the list has ended, and knows what is gone', async () => {
    const { api, reflector, consumer } = await startedWith('a', 'b')
    api.remove('a', { silently: true })
    reflector.relist()
    expect(reflector.isListed).toBe(false)
    await settle(10)
    expect(reflector.isListed).toBe(true)
    expect([...consumer.view.keys()]).toEqual(['org/b'])
    await reflector.stop()
  })

  it('and again while it reads, begins once more, and watches nothing before', async () => {
    const { api, reflector, consumer } = await startedWith('a', 'b')
    api.remove('a', { silently: true })
    const gate = Promise.withResolvers<void>()
    api.gate = gate.promise
    reflector.relist()
    await settle()
    reflector.relist()
    const { lists, watches } = api
    gate.resolve()
    api.gate = undefined
    await settle(20)
    expect([api.lists - lists, api.watches - watches]).toEqual([1, 1])
    expect(reflector.isListed).toBe(true)
    expect([...consumer.view.keys()]).toEqual(['org/b'])
    await reflector.stop()
  })

  it('in the middle of what its watch tells, takes the rest of that for no list', async () => {
    const { api, reflector, consumer } = await startedWith('a', 'b')
    api.remove('a', { silently: true })
    const gate = Promise.withResolvers<void>()
    api.gate = gate.promise
    const applied = consumer.applied.bind(consumer)
    consumer.applied = (thing, previous) => {
      applied(thing, previous)
      if (thing.key === 'org/c') reflector.relist()
    }
    api.put('c', { twice: true })
    api.put('d')
    await settle()
    expect(reflector.isListed).toBe(false)
    gate.resolve()
    await settle(20)
    expect(reflector.isListed).toBe(true)
    expect([...consumer.view.keys()].sort()).toEqual(['org/b', 'org/c', 'org/d'])
    await reflector.stop()
  })

  it('when a list has just been taken in, lets that count for nothing', async () => {
    const { api, reflector } = await startedWith('a')
    api.endWatches()
    reflector.relist()
    await settle()
    let asked = 0
    for (let turn = 0; turn < 40 && asked < 5; turn += 1) {
      await settle(1)
      if (!reflector.isListed) continue
      asked += 1
      reflector.relist()
      expect(reflector.isListed).toBe(false)
    }
    expect(asked).toBeGreaterThan(0)
    await settle(20)
    expect(reflector.isListed).toBe(true)
    await reflector.stop()
  })
})
