import { expect, it } from 'vitest'
import { FakeClock } from '../../test/support/fake-clock.ts'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { MAX_REPLICAS } from '../apis/core-kinds.ts'
import type { ResourceType } from '../apis/meta.ts'
import type { ListQuery, Page } from '../kube/client.ts'
import { apiLeases, PeerServers } from './peers.ts'

/** Its first lists get no response. */
class SilentStore extends MemoryStore {
  #hanging: number

  constructor(now: () => number, hanging: number) {
    super(now)
    this.#hanging = hanging
  }

  override async list(type: ResourceType, query: ListQuery, from?: string): Promise<Page> {
    this.#hanging -= 1
    return this.#hanging < 0 ? await super.list(type, query, from) : await new Promise<never>(() => undefined)
  }
}

it('the Leases of very many REST servers that are gone can all be listed and deleted', async () => {
  const clock = new FakeClock()
  const store = new MemoryStore(() => clock.now())
  const records = apiLeases({ resources: store, namespace: 'davit-system', clock })
  const left = MAX_REPLICAS + 5
  for (let n = 0; n < left; n += 1)
    await records.write({ name: `gone-${n}`, session: `s${n}`, seen: 7, leaseMs: 9000 }, undefined)
  const found = await records.list()
  expect(found).toHaveLength(left)
  for (const { name, version } of found) await records.remove(name, version)
  expect(await records.list()).toEqual([])
})

it.each([1, 2, 3])('%d lists without a response delay a change, and do not end it', async (hanging) => {
  const clock = new FakeClock()
  const resources = new SilentStore(() => clock.now(), hanging)
  const log = { info: () => undefined, warn: () => undefined, error: () => undefined }
  const records = apiLeases({ resources, namespace: 'davit-system', clock, deadlineMs: 2000 })
  const peers = new PeerServers({ name: 'a', leaseMs: 9000, records, clock, log })
  const answers: boolean[] = []
  void peers.haveSeen(() => 7).then((haveSeen) => answers.push(haveSeen))
  await clock.elapse(hanging * 2000)
  expect(answers).toEqual([])
  await clock.elapse(200)
  expect(answers).toEqual([true])
})
