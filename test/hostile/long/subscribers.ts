/** Many endpoints of one organization that subscribe to one type, each with its own path. */

import { setTimeout as sleep } from 'node:timers/promises'
import { secrets } from '../../../src/apis/core-kinds.ts'
import { eventTypeKind, eventTypes } from '../../../src/apis/event-type.ts'
import { API_VERSION } from '../../../src/apis/meta.ts'
import {
  SIGNING_KEYS_LABEL,
  webhookEndpointKind,
  webhookEndpoints,
} from '../../../src/apis/webhook-endpoint.ts'
import { type Bed, makeNamespace, SYSTEM } from '../../bench/bed.ts'
import type { Route } from '../../bench/loads/publishing.ts'
import { listAll } from '../../support/list-all.ts'

const WRITERS = 16
const KEYS_LIMIT_MS = 300_000
const PAGE = 5000
/** Each check reads them all. */
const LOOK_EVERY_MS = 3000

/** Needs a running controller, which creates their signing secrets. @returns where to publish to all of them */
export async function makeSubscribers(
  bed: Bed,
  { namespace, type, count }: { namespace: string; type: string; count: number },
): Promise<Route> {
  const { api } = bed
  await makeNamespace(api, namespace, { organization: true })
  await api.create(eventTypes, {
    apiVersion: API_VERSION,
    kind: eventTypeKind.kind,
    metadata: { name: type },
    spec: { description: 'An event for all.' },
  })
  const numbers = Array.from({ length: count }, (_, i) => i).values()
  const writer = async () => {
    for (const i of numbers) {
      await api.create(webhookEndpoints, {
        apiVersion: API_VERSION,
        kind: webhookEndpointKind.kind,
        metadata: { name: `endpoint-${i}`, namespace },
        spec: { url: `${bed.receiverUrl}/ok/${namespace}/${i}`, eventTypes: [type] },
      })
    }
  }
  await Promise.all(Array.from({ length: WRITERS }, writer))
  const limit = performance.now() + KEYS_LIMIT_MS
  while ((await keysOf(bed, namespace)) < count) {
    if (performance.now() > limit) throw new Error('the controller makes no signing keys')
    await sleep(LOOK_EVERY_MS)
  }
  return { namespace, type }
}

async function keysOf({ api }: Bed, namespace: string): Promise<number> {
  const query = { namespace: SYSTEM, labelSelector: `${SIGNING_KEYS_LABEL}=true`, limit: PAGE }
  const keys = await listAll(api, secrets, query)
  return keys.filter(({ metadata }) => metadata.name.startsWith(`${namespace}.`)).length
}
