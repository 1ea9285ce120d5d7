/**
 * Publishes events like the REST server, but without HTTP: matches them with the endpoints, appends them to the delivery log, and
 * counts them as accepted when the append is durable.
 */

import { NAME_ENTROPY_BYTES, sortableName } from '../../../src/apis/ids.ts'
import { webhookEndpoint, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import { connectKubernetes, type KubernetesClient } from '../../../src/kube/resources.ts'
import { createClock, createRandom } from '../../../src/lib/time.ts'
import { decideState } from '../../../src/webhooks/endpoints/plan.ts'
import { acceptEvent, matchEndpoints, type Subscriber } from '../../../src/webhooks/events/plan.ts'
import { createEventLog, type OpenEventLog } from '../../../src/webhooks/log/writers.ts'
import { listAll } from '../../support/list-all.ts'
import { logOn } from '../../support/log-on.ts'
import { createPublishing, type Enter, type PublishingCalls } from '../loads/publishing.ts'
import { serveCalls } from './remote-calls.ts'

export type PublisherCalls = PublishingCalls & {
  connect: (argument: { kubeconfigPath: string; namespace: string }) => Promise<void>
  /** Reads the endpoints of these organizations. @returns how many there are */
  list: (namespaces: readonly string[]) => Promise<number>
}

const clock = createClock()
const random = createRandom()
const subscribers = new Map<string, Subscriber[]>()
let api: KubernetesClient | undefined
let log: OpenEventLog | undefined

async function list(namespaces: readonly string[]): Promise<number> {
  let found = 0
  for (const namespace of namespaces) {
    const stored = api ? await listAll(api, webhookEndpoints, { namespace }) : []
    const endpoints = stored.map((raw) => webhookEndpoint.parse(raw))
    const views = endpoints.map((endpoint) => ({
      endpoint,
      enabled: decideState(endpoint).state === 'enabled',
    }))
    subscribers.set(namespace, views)
    found += views.length
  }
  return found
}

const enter: Enter = async (route, dataTexts) => {
  const acceptedAt = clock.now()
  const targets = matchEndpoints(route.type, subscribers.get(route.namespace) ?? [])
  const events = dataTexts.map((dataText) => {
    const name = sortableName(acceptedAt, random.bytes(NAME_ENTROPY_BYTES))
    return acceptEvent({ name, ...route, dataText, happenedAt: acceptedAt }, targets)
  })
  await log?.append(events)
  return targets.length * events.length
}

serveCalls({
  connect: async ({ kubeconfigPath, namespace }) => {
    api = await connectKubernetes({ kubeconfigPath, clock, random })
    log = createEventLog({ store: logOn(api, { clock, random, namespace }), writer: 'bench', clock })
  },
  list,
  ...createPublishing(enter),
} satisfies PublisherCalls)
