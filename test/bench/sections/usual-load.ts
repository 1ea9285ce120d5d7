/** What the measurements on one bed share: an endpoint that takes what comes, and a load at saturation. */

import type { Bed } from '../bed.ts'
import type { Controller } from '../controller.ts'
import { runLoad } from '../davit-load.ts'
import type { Route } from '../loads/publishing.ts'
import { makeEndpoints } from '../topology.ts'

export const BODY_BYTES = 180
export const PUBLISHERS = 32
/** Deliveries accepted and not settled. */
export const WINDOW = 1000

/** Long enough for the engines to compile what is hot. */
const WARM_UP_SECONDS = 2

/** Its keys are made by a controller without load, which has stopped afterwards. @returns where to publish */
export async function makeEndpoint(bed: Bed): Promise<readonly Route[]> {
  const controller = await bed.startController()
  const routes = await makeEndpoints(bed, { name: 'one', organizations: 1, endpoints: 1, path: '/ok' })
  await controller.stop()
  return routes
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
  routes: readonly Route[],
  env: Record<string, string> = {},
): Promise<Controller> {
  const controller = await bed.startController({ env })
  await runClosed(bed, controller, { routes, seconds: WARM_UP_SECONDS })
  return controller
}
