/** What the measurements on one bed share: an endpoint for each way of keeping the log, and what they have found. */

import { webhookDeliveries } from '../../../src/apis/webhook-delivery.ts'
import { type DeliveryLogMode, deliveryLog } from '../../../src/apis/webhook-endpoint.ts'
import type { RawObject } from '../../../src/kube/client.ts'
import type { Bed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { runLoad } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import { makeEndpoints } from '../topology.ts'

export const WAYS: readonly DeliveryLogMode[] = deliveryLog.options

export const BODY_BYTES = 180
export const PUBLISHERS = 32
/** Deliveries accepted and not settled. */
export const WINDOW = 1000

/** Long enough for the engines to compile what is hot. */
const WARM_UP_SECONDS = 2

export type EndpointOfEach = Record<DeliveryLogMode, readonly Route[]>

/** One endpoint for each way. A controller must run. */
export async function makeEndpointOfEach(bed: Bed): Promise<EndpointOfEach> {
  const one = { organizations: 1, endpoints: 1, path: '/ok' }
  return {
    Objects: await makeEndpoints(bed, { ...one, name: 'objects', deliveryLog: 'Objects' }),
    Segments: await makeEndpoints(bed, { ...one, name: 'segments', deliveryLog: 'Segments' }),
  }
}

/** At saturation. */
export async function runClosed(
  bed: Bed,
  controller: Controller,
  load: { routes: readonly Route[]; seconds: number },
) {
  const pace = { publishers: PUBLISHERS, window: WINDOW, bytes: BODY_BYTES }
  return await runLoad({ bed, controllerPid: controller.pid, load: { ...load, ...pace } })
}

/** A controller that has had load already. @param env further settings */
export async function startWarm(
  bed: Bed,
  endpoints: EndpointOfEach,
  env: Record<string, string> = {},
): Promise<Controller> {
  const controller = await bed.startController({ env })
  await warm(bed, controller, endpoints)
  return controller
}

export async function warm(bed: Bed, controller: Controller, endpoints: EndpointOfEach): Promise<void> {
  for (const way of WAYS) {
    await runClosed(bed, controller, { routes: endpoints[way], seconds: WARM_UP_SECONDS })
  }
}

/** A delivery that Davit made, for the raw loop to make again. */
export async function sampleDelivery(bed: Bed, [route]: readonly Route[]): Promise<RawObject> {
  const { items } = await bed.api.list(webhookDeliveries, { namespace: route?.namespace ?? '', limit: 1 })
  const [sample] = items
  if (!sample?.status) throw new Error('Davit has made no delivery with a status')
  return sample
}
