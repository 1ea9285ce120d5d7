/** What deliveries that wait for their next attempt cost: memory, and time until a controller that starts is ready. */

import { setTimeout as sleep } from 'node:timers/promises'
import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { webhookDeliveries } from '../../../src/apis/webhook-delivery.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import { createRandom } from '../../../src/lib/time.ts'
import { type Bed, onBed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { nextRun } from '../davit-load.ts'
import { residentBytes } from '../measure/process-usage.ts'
import { report } from '../progress.ts'
import { makeEndpoints } from '../topology.ts'
import { BODY_BYTES } from './usual-load.ts'

export type Pending = {
  deliveries: number
  readySeconds: number
  /** Bytes of heap in use after a collection, and of resident memory. */
  heapBytes: number
  residentBytes: number
  /** Bytes of heap over that without any, for each. */
  bytesEach: number
}

/** So many come about by failing; the others are copies of one of them, which takes a tenth of the time. */
const REAL = 1000
const PER_SECOND = 200
const FAIL_LIMIT_MS = 120_000
const WRITERS = 32
/** Copies are due long after the measurement. */
const COPIES_DUE_MS = 12 * 3600_000

export async function measurePending(counts: readonly number[]): Promise<Pending[]> {
  return await onBed(async (bed) => {
    const first = await bed.startController()
    const [route] = await makeEndpoints(bed, {
      name: 'failing',
      organizations: 1,
      endpoints: 1,
      path: '/fail',
    })
    const namespace = route?.namespace ?? ''
    await first.stop()
    const none = await look(await bed.startController(), 0)
    const results = [{ ...none, bytesEach: 0 }]
    report(`ready after ${none.readySeconds.toFixed(2)} s with nothing pending`)
    await failSome(bed, namespace)
    let made = REAL
    for (const count of counts) {
      await copy(bed, namespace, { from: made, to: count })
      made = Math.max(made, count)
      const result = await look(await bed.startController(), made)
      results.push({ ...result, bytesEach: (result.heapBytes - none.heapBytes) / made })
      report(`ready after ${result.readySeconds.toFixed(2)} s with ${made} pending`)
    }
    return results
  })
}

async function look(controller: Controller, deliveries: number): Promise<Omit<Pending, 'bytesEach'>> {
  const pending = await controller.pending()
  if (pending !== deliveries)
    throw new Error(`${deliveries} deliveries wait, the controller knows ${pending}`)
  const heapBytes = await controller.call('heap', null)
  const result = {
    deliveries,
    readySeconds: controller.readyAfter,
    heapBytes,
    residentBytes: residentBytes(controller.pid),
  }
  await controller.stop()
  return result
}

/** Publishes to the endpoint that fails until all have an object. */
async function failSome(bed: Bed, namespace: string): Promise<void> {
  const controller = await bed.startController()
  bed.closings.reset()
  const load = { run: nextRun(), routes: [{ namespace, type: 'failing.type-0' }], bytes: BODY_BYTES }
  await bed.publisher.call('publish', { ...load, seconds: REAL / PER_SECOND, perSecond: PER_SECOND })
  const limit = performance.now() + FAIL_LIMIT_MS
  while (bed.closings.total.count < REAL) {
    if (performance.now() > limit) throw new Error(`only ${bed.closings.total.count} failures were stored`)
    await sleep(100)
  }
  await controller.stop()
}

async function copy(bed: Bed, namespace: string, range: { from: number; to: number }): Promise<void> {
  const [model] = (await bed.api.list(webhookDeliveries, { namespace, limit: 1 })).items
  if (!model?.status) throw new Error('there is no delivery to copy')
  const random = createRandom()
  let next = range.from
  const writer = async () => {
    while (next < range.to) {
      const index = next
      next += 1
      await createCopy(bed, model, {
        index,
        name: sortableName(Date.now(), random.bytes(NAME_ENTROPY_BYTES)),
      })
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, writer))
}

async function createCopy(bed: Bed, model: RawObject, as: { index: number; name: string }): Promise<void> {
  const { apiVersion = '', kind = '', metadata } = model
  const tag = metadata.name.slice(metadata.name.indexOf('-'))
  const ref = { namespace: metadata.namespace, name: as.name + tag }
  const { labels, ownerReferences } = metadata
  const spec = { ...(model.spec as object), deliveryId: `msg_${as.name}`, position: `1/${as.index}` }
  await bed.api.create(webhookDeliveries, {
    apiVersion,
    kind,
    metadata: { ...ref, labels, ownerReferences },
    spec,
  })
  const nextAttemptAt = new Date(Date.now() + COPIES_DUE_MS).toISOString()
  const status = { ...(model.status as object), nextAttemptAt }
  await bed.api.patch(webhookDeliveries, ref, { status }, { subresource: 'status' })
}
