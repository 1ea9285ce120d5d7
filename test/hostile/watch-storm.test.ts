/**
 * An API server whose watches break in every way, continuously: the controller lists rarely, and events that are published
 * meanwhile arrive. Each trouble has its own controller and proxy.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, inject, test } from 'vitest'
import { startApiFront } from '../support/api-front.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { startReceiver } from '../support/receiver.ts'
import { countsOf, MOST_LISTS_A_MINUTE, STORM_MS, TROUBLES, tellStorm } from './watch-troubles.ts'

const LIMIT_MS = 110_000 + STORM_MS
const PUBLISH_EVERY_MS = 1000
const EVENTS = Math.floor(STORM_MS / 2 / PUBLISH_EVERY_MS)

async function publishSome(davit: TestDavit): Promise<void> {
  for (let n = 0; n < EVENTS; n += 1) {
    await davit.publishOnly('billing.updated', { n })
    await sleep(PUBLISH_EVERY_MS)
  }
}

describe.concurrent('watches', () => {
  const figures: Record<string, number> = {}
  afterAll(() => tellStorm('watch-storm', figures))

  test.for(TROUBLES)(
    '$name',
    { timeout: LIMIT_MS },
    async ({ name, begin, mostLists = MOST_LISTS_A_MINUTE }) => {
      const front = await startApiFront(inject('adminAccess'))
      const receiver = await startReceiver()
      const cluster = { access: inject('adminAccess'), kubeconfigPath: front.kubeconfigPath }
      const davit = await startDavit('watches', { cluster })
      try {
        await davit.endpoint('good', { url: `${receiver.url}/good`, eventTypes: ['billing.updated'] })
        const before = front.requests.length
        const end = begin(front)
        const began = performance.now()
        const publishing = publishSome(davit)
        await sleep(STORM_MS)
        await publishing
        const minutes = (performance.now() - began) / 60_000
        const { most, all, watches } = countsOf(front.requests.slice(before), minutes)
        end()
        await receiver.waitFor(EVENTS, { path: '/good', timeoutMs: 60_000 })
        figures[`${name}: lists of one kind a minute, most`] = Math.round(most)
        figures[`${name}: lists a minute, all kinds`] = Math.round(all)
        figures[`${name}: watches of a kind a minute`] = Math.round(watches)
        figures[`${name}: events received`] = receiver.received('/good').length
        expect(most).toBeLessThanOrEqual(mostLists)
        expect(receiver.received('/good')).toHaveLength(EVENTS)
      } finally {
        await davit.stop()
        await receiver.close()
        await front.stop()
      }
    },
  )
})
