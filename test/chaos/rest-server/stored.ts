/** Reads the state at the end of a run: the log as the REST server lists it, endpoints, and their signing secrets. */

import { secrets } from '../../../src/apis/core-kinds.ts'
import { ENDPOINT_PREFIX } from '../../../src/apis/ids.ts'
import { SIGNING_KEYS_LABEL, webhookEndpoint, webhookEndpoints } from '../../../src/apis/webhook-endpoint.ts'
import type { ResourceReader } from '../../../src/kube/client.ts'
import { readKeys } from '../../../src/webhooks/endpoints/signing-keys.ts'
import { OPERATOR_NAMESPACE } from '../../support/installation.ts'
import { listAll } from '../../support/list-all.ts'
import type { PatientLink } from './patient-link.ts'
import type { Scene } from './scene.ts'
import type { ServerEvidence } from './server-verdict.ts'

type Page = { deliveries: { deliveryId: string; status: string }[]; cursor: string | null }

/** Ids by the name of the endpoint; only successful deliveries. */
export async function readLogged(link: PatientLink, scene: Scene): Promise<Map<string, string[]>> {
  const logged = new Map<string, string[]>()
  for (const [name, id] of Object.entries(scene.endpoints)) {
    const deliveries: Page['deliveries'] = []
    let cursor: string | null = ''
    while (cursor !== null) {
      const from: string = cursor === '' ? '' : `&cursor=${cursor}`
      const path = `${scene.path}/webhooks/${id}/deliveries?limit=200${from}`
      const answer = await link.ask({ method: 'GET', path }, deliveries.length)
      if (answer?.status !== 200) throw new Error(`GET ${path}: ${answer?.status}`)
      const page = answer.json as Page
      deliveries.push(...page.deliveries)
      cursor = page.cursor
    }
    logged.set(
      name,
      deliveries.flatMap(({ deliveryId, status }) => (status === 'succeeded' ? [deliveryId] : [])),
    )
  }
  return logged
}

/** Only endpoints that clients created. */
export async function readStored(api: ResourceReader, scene: Scene): Promise<ServerEvidence['stored']> {
  const ours = new Set(Object.values(scene.endpoints))
  const all = await listAll(api, webhookEndpoints, { namespace: scene.organization })
  const endpoints = all
    .map((raw) => webhookEndpoint.parse(raw))
    .map(({ metadata: { name }, spec }) => ({
      id: ENDPOINT_PREFIX + name,
      description: spec.description ?? '',
    }))
    .filter(({ id }) => !ours.has(id))
  const labelSelector = `${SIGNING_KEYS_LABEL}=true`
  const stored = await listAll(api, secrets, { namespace: OPERATOR_NAMESPACE, labelSelector })
  const signing = stored
    .map((raw) => readKeys(raw))
    .map(
      ({ endpoint, keys: { keys } }) =>
        [ENDPOINT_PREFIX + endpoint, keys.map(({ secret }) => secret)] as const,
    )
    .filter(([id]) => !ours.has(id))
  return { endpoints, secrets: new Map(signing) }
}
