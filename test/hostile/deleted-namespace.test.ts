/**
 * An organization is deleted under load: it gets nothing more, nothing of it stays in memory, and another organization misses
 * nothing.
 */

import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { namespaces } from '../../src/apis/core-kinds.ts'
import { resourceType } from '../../src/apis/meta.ts'
import { isApiError } from '../../src/kube/client.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'
import { tellFigures } from './figures.ts'

const ENDPOINTS = { plain: {}, ordered: { ordered: true }, failing: {}, hanging: {} }
const EVERY_MS = 20
const BEFORE_MS = 3000
const AFTER_MS = 5000
const LIMIT_MS = 120_000

let davit: TestDavit
let otherOrganization: TestDavit
let receiver: Receiver

beforeAll(async () => {
  receiver = await startReceiver()
  receiver.answer('/gone/failing', { status: 500 })
  receiver.answer('/gone/hanging', 'hang')
  davit = await startDavit('deleted', { otherOrganization: true })
  if (!davit.otherOrganization) throw new Error('there is no neighbour')
  otherOrganization = davit.otherOrganization
  for (const [name, spec] of Object.entries(ENDPOINTS)) {
    await davit.endpoint(name, { url: `${receiver.url}/gone/${name}`, ...spec })
  }
  await otherOrganization.endpoint('good', { url: `${receiver.url}/good` })
}, LIMIT_MS)

afterAll(async () => {
  await davit?.stop()
  await receiver?.close()
})

/** Publishes until it is stopped or forbidden. @returns how many were accepted */
function publishInto(one: TestDavit): () => Promise<number> {
  let going = true
  let count = 0
  const loop = (async () => {
    while (going) {
      try {
        await one.publishOnly('billing.updated', { n: count })
        count += 1
      } catch (error) {
        if (!isApiError(error)) throw error
      }
      await sleep(EVERY_MS)
    }
    return count
  })()
  return () => {
    going = false
    return loop
  }
}

/** Deletes everything like the namespace controller, which does not run here, until nothing new appears. */
async function emptyNamespace(namespace: string): Promise<void> {
  await until(
    async () => {
      let left = 0
      for (const type of kinds.filter(({ scope }) => scope === 'Namespaced').map(resourceType)) {
        for (const { metadata } of (await davit.api.list(type, { namespace })).items) {
          left += 1
          await davit.api.delete(type, { namespace, name: metadata.name }).catch((error: unknown) => {
            if (!isApiError(error, 'NotFound')) throw error
          })
        }
      }
      return left === 0 ? true : undefined
    },
    () => 'something holds the objects of the namespace',
    LIMIT_MS,
  )
}

test(
  'nothing is sent once its endpoints are gone, and the neighbour gets everything',
  async () => {
    const stopHere = publishInto(davit)
    const stopThere = publishInto(otherOrganization)
    await sleep(BEFORE_MS)
    await davit.api.delete(namespaces, { name: davit.organization })
    const deletedAt = performance.now()
    await emptyNamespace(davit.organization)
    const empty = performance.now()
    await sleep(AFTER_MS)
    const [published, events] = await Promise.all([stopHere(), stopThere()])
    await receiver.waitFor(events, { path: '/good', timeoutMs: LIMIT_MS })
    await until(
      async () => davit.controller.webhooks.engine.counters.total === 0 || undefined,
      () => `${davit.controller.webhooks.engine.counters.total} deliveries are pending`,
      LIMIT_MS,
    )
    const sent = receiver.requests.filter(({ path }) => path.startsWith('/gone/'))
    const late = sent.filter(({ receivedAt }) => receivedAt > empty)
    tellFigures('deleted-namespace', {
      'events published in it': published,
      'requests to it before': sent.length - late.length,
      'requests to it after its endpoints were gone': late.length,
      'ms from the deletion to nothing left': Math.round(empty - deletedAt),
      'deliveries of it in memory at the end': davit.controller.webhooks.engine.counters.total,
      'events of the neighbour': events,
      'of them received': receiver.received('/good').length,
    })
    expect(sent.length).toBeGreaterThan(0)
    expect(late).toEqual([])
    expect(receiver.received('/good')).toHaveLength(events)
    expect(davit.controller.problems()).toEqual([])
  },
  LIMIT_MS * 3,
)
