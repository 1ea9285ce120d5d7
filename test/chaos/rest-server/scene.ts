/** The environment of the clients: an organization with an endpoint of each kind. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Installation, ServerProcess } from '../../support/installation.ts'
import { type Answered, PatientLink, type PatientLinkOptions } from './patient-link.ts'

export const EVENT_TYPES = { usual: 'environment.started', ordered: 'environment.stopped' } as const

/** By name, which is the path at the receiver. */
const ENDPOINTS = {
  one: { eventTypes: [EVENT_TYPES.usual] },
  two: { eventTypes: [EVENT_TYPES.usual] },
  ordered: { eventTypes: [EVENT_TYPES.ordered], ordered: true },
} as const

export const ORDERED = 'ordered'

export type Scene = {
  /** `/organizations/...` */
  path: string
  organization: string
  apiKey: string
  /** Ids by name. */
  endpoints: Readonly<Record<string, string>>
  /** URL of the endpoints that clients create. */
  urlOfMade: string
}

const ORGANIZATION = 'chaos'
const LET_IN_LIMIT_MS = 20_000
const POLL_MS = 200

/** Names of the endpoints that get an event of the type. */
export function subscribersOf(type: string): string[] {
  return Object.entries(ENDPOINTS).flatMap(([name, { eventTypes }]) =>
    (eventTypes as readonly string[]).includes(type) ? [name] : [],
  )
}

/** Creates the organization and, over REST, its endpoints. */
export async function setScene(
  davit: Installation,
  { baseUrl }: ServerProcess,
  { receiverUrl, ...link }: Pick<PatientLinkOptions, 'ledger' | 'random'> & { receiverUrl: string },
): Promise<Scene> {
  const path = `/organizations/${ORGANIZATION}`
  await davit.makeOrganization(ORGANIZATION)
  const apiKey = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
  const asker = new PatientLink({ ...link, baseUrls: [baseUrl], apiKey })
  await untilLetIn(asker, `${path}/webhooks`)
  const endpoints: Record<string, string> = {}
  for (const [name, spec] of Object.entries(ENDPOINTS)) {
    const body = { ...spec, url: `${receiverUrl}/${name}` }
    const asked = { method: 'POST', path: `${path}/webhooks`, body, idempotencyKey: name } as const
    endpoints[name] = idIn(await asker.ask(asked, 0))
  }
  await asker.close()
  return { path, organization: ORGANIZATION, apiKey, endpoints, urlOfMade: `${receiverUrl}/made` }
}

/** The API server needs a moment to apply a new role, and the REST server another to ask again. */
async function untilLetIn(asker: PatientLink, path: string): Promise<void> {
  const deadline = performance.now() + LET_IN_LIMIT_MS
  for (;;) {
    const answer = await asker.ask({ method: 'GET', path }, 0)
    if (answer?.status === 200) return
    if (performance.now() > deadline) throw new Error(`the owner is not let in: ${answer?.status}`)
    await sleep(POLL_MS)
  }
}

function idIn(answer: Answered | undefined): string {
  const id = (answer?.json.endpoint as { endpointId?: string } | undefined)?.endpointId
  if (id === undefined) throw new Error(`an endpoint could not be made: ${JSON.stringify(answer?.json)}`)
  return id
}
