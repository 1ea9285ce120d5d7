/** Fake services behind the routes that answer like the real ones and record their calls. */

import { eventType } from '../../src/apis/event-type.ts'
import type { BoxTemplateService } from '../../src/server/box-templates.ts'
import type { CredentialResource } from '../../src/server/credential-resource.ts'
import type { CredentialService } from '../../src/server/credentials.ts'
import type { OpenDeliveryIndex } from '../../src/server/delivery-index/delivery-index.ts'
import type { DeliveryLine } from '../../src/server/delivery-resource.ts'
import type { EndpointResource } from '../../src/server/endpoint-resource.ts'
import type { EndpointService } from '../../src/server/endpoints.ts'
import type { EventService } from '../../src/server/events.ts'
import { Problem } from '../../src/server/http/problems.ts'
import type { Published, PublishingService } from '../../src/server/publishing.ts'
import type { SecretsSettingsService } from '../../src/server/secrets-settings.ts'
import type { EventStreams } from '../../src/server/stream/event-streams.ts'

/** The public members of a class. */
type PublicOf<T> = Pick<T, keyof T>

const AT = '2026-01-31T12:00:00.000Z'
export const EVENT_ID = 'msg_00000000000000000000000001'
export const DELIVERY_ID = 'msg_00000000000000000000000002'
export const SECRET = 'whsec_c2lnbmluZyBzZWNyZXQgMjQgYnl0ZXM='

const PAYLOAD = '{"type":"environment.started","timestamp":"2026-01-31T12:00:00.000Z","data":{}}'

export type Asked = { operation: string; of: unknown }

/** One endpoint for each organization, with one delivery, and one registry credential. */
export class FakeServices {
  readonly asked: Asked[] = []
  /** Thrown by the next operation. */
  failWith: unknown
  /** Awaited by the next operations. */
  hold: Promise<unknown> | undefined
  replayed = false
  readonly #organizations: readonly string[]

  constructor(organizations: readonly string[]) {
    this.#organizations = organizations
  }

  readonly endpoints = {
    create: async (organization, draft, how) => {
      await this.#ask('create', { organization, draft, how })
      const endpoint = { ...endpointOf('whe_made'), ...defined(draft) }
      return {
        endpoint,
        etag: '"u.1"',
        replayed: this.replayed,
        ...(this.replayed ? {} : { secret: SECRET }),
      }
    },
    list: async (organization, query) => {
      await this.#ask('list', { organization, query })
      const all = ['whe_a', 'whe_b', 'whe_c'].filter((id) => id > (query.after ?? ''))
      const ids = all.slice(0, query.limit)
      const last = ids.at(-1)
      return {
        endpoints: ids.map((id) => endpointOf(id)),
        ...(all.length > ids.length && last !== undefined ? { next: last } : {}),
      }
    },
    get: async (id) => {
      await this.#ask('get', { id })
      return this.#endpoint(id)
    },
    change: async (id, change, how) => {
      await this.#ask('change', { id, change, how })
      return this.#endpoint(id)
    },
    remove: async (id, how) => {
      await this.#ask('remove', { id, how })
      this.#endpoint(id)
    },
    roll: async (id, roll, how) => {
      await this.#ask('roll', { id, roll, how })
      this.#endpoint(id)
      const overlapSeconds = roll.expireOld ? 0 : 86_400
      return { overlapSeconds, replayed: this.replayed, ...(this.replayed ? {} : { secret: SECRET }) }
    },
    secrets: async (id) => {
      await this.#ask('secrets', { id })
      this.#endpoint(id)
      return [{ fingerprint: 'df0495d62ebf27ba', createdAt: AT }]
    },
    identify: async (id) => {
      await this.#ask('identify', { id })
      this.#endpoint(id)
      return { namespace: id.organization, name: 'billing', uid: `uid-of-${id.organization}` }
    },
    identifyAll: async (organization) => {
      await this.#ask('identifyAll', { organization })
      return [
        { namespace: organization, name: `of-${organization}`, uid: `uid-of-${organization}` },
        { namespace: organization, name: 'audit', uid: 'uid-of-audit' },
      ]
    },
  } satisfies PublicOf<EndpointService> as unknown as EndpointService

  readonly publishing = {
    publish: async (organization, publication, how) => {
      await this.#ask('publish', { organization, publication, how })
      return this.#published()
    },
    publishBatch: async (organization, publications, how) => {
      await this.#ask('publishBatch', { organization, publications, how })
      return { results: publications.map(() => this.#published()), replayed: this.replayed }
    },
    ping: async (id, how) => {
      await this.#ask('ping', { id, how })
      this.#endpoint(id)
      return this.#published()
    },
    redeliver: async (id, how) => {
      await this.#ask('redeliver', { id, how })
      this.#endpoint(id)
      if (id.deliveryId !== deliveryIn(id.organization)) throw new Problem('not_found')
      return this.#published()
    },
  } satisfies PublicOf<PublishingService> as unknown as PublishingService

  readonly deliveries = {
    list: async (endpoints, query) => {
      await this.#ask('deliveries', { endpoints, query })
      return query.after === undefined ? { deliveries: [LINE], next: DELIVERY_ID } : { deliveries: [] }
    },
    read: async (endpoint, deliveryId) => {
      await this.#ask('delivery', { endpoint, deliveryId })
      if (deliveryId !== deliveryIn(endpoint.namespace)) return undefined
      return { ...LINE, deliveryId, attempts: [{ at: AT, code: 200, latencyMs: 12, response: 'ok' }] }
    },
    body: async (endpoint, deliveryId) => {
      await this.#ask('body', { endpoint, deliveryId })
      return PAYLOAD
    },
  } satisfies Pick<OpenDeliveryIndex, 'list' | 'read' | 'body'> as unknown as OpenDeliveryIndex

  readonly events = {
    list: async (organization, query) => {
      await this.#ask('events', { organization, query })
      const one = eventOf(deliveryIn(organization))
      return query.after === undefined ? { events: [one], next: one.eventId } : { events: [] }
    },
    read: async (organization, eventId) => {
      await this.#ask('event', { organization, eventId })
      return eventId === deliveryIn(organization) ? { ...eventOf(eventId), payload: PAYLOAD } : undefined
    },
  } satisfies PublicOf<EventService>

  /** Each stream has one message, and ends. */
  readonly streams = {
    open: async (organization, from) => {
      await this.#ask('stream', { organization, from })
      return (connection) => connection.end('id: 1-1-1\nevent: heartbeat\ndata: {}\n\n')
    },
  } satisfies Pick<EventStreams, 'open'>

  readonly credentials = {
    create: async (organization, draft, how) => {
      await this.#ask('createCredential', { organization, draft, how })
      const { secret: _hidden, ...fields } = draft
      const credential = { ...credentialOf('rc_made'), ...defined(fields) }
      return { credential, etag: '"u.1"', replayed: this.replayed }
    },
    list: async (organization, query) => {
      await this.#ask('listCredentials', { organization, query })
      const all = ['rc_a', 'rc_b', 'rc_c'].filter((id) => id > (query.after ?? ''))
      const ids = all.slice(0, query.limit)
      const last = ids.at(-1)
      return {
        registryCredentials: ids.map(credentialOf),
        ...(all.length > ids.length && last !== undefined ? { next: last } : {}),
      }
    },
    get: async (id) => {
      await this.#ask('getCredential', { id })
      return this.#credential(id)
    },
    change: async (id, change, how) => {
      await this.#ask('changeCredential', { id, change, how })
      return { ...this.#credential(id), replayed: this.replayed }
    },
    remove: async (id, how) => {
      await this.#ask('removeCredential', { id, how })
      this.#credential(id)
    },
  } satisfies PublicOf<CredentialService> as unknown as CredentialService

  readonly settings = {
    get: async (organization) => {
      await this.#ask('getSettings', { organization })
      return { settings: { ...OWN_SETTINGS, conditions: [] } }
    },
    put: async (organization, draft, how) => {
      await this.#ask('putSettings', { organization, draft, how })
      return { settings: { ...OWN_SETTINGS, ...defined(draft), conditions: [READY] }, etag: '"u.1"' }
    },
  } satisfies PublicOf<SecretsSettingsService> as unknown as SecretsSettingsService

  readonly boxTemplates = {
    list: async (organization, query) => {
      await this.#ask('listTemplates', { organization, query })
      return query.after === undefined
        ? { boxTemplates: [templateOf('api')], next: 'page-2' }
        : { boxTemplates: [templateOf('shop')] }
    },
    read: async (organization, name) => {
      await this.#ask('readTemplate', { organization, name })
      if (name !== templateIn(organization)) throw new Problem('not_found')
      return templateOf(name)
    },
  } satisfies PublicOf<BoxTemplateService>

  readonly catalogue = {
    all: () => [
      eventType.parse({
        metadata: { name: 'environment.stopped' },
        spec: { description: 'An environment stopped.' },
      }),
      eventType.parse({
        metadata: { name: 'environment.started' },
        spec: {
          description: 'An environment started.',
          schema: { type: 'object' },
          example: { environmentId: 'env_1' },
        },
      }),
    ],
  }

  async #ask(operation: string, of: unknown): Promise<void> {
    this.asked.push({ operation, of })
    const failure = this.failWith
    this.failWith = undefined
    await this.hold
    if (failure !== undefined) throw failure
  }

  #endpoint({ organization, endpointId }: { organization: string; endpointId: string }) {
    if (endpointId !== idIn(organization) || !this.#organizations.includes(organization)) {
      throw new Problem('not_found')
    }
    return { endpoint: endpointOf(endpointId), etag: '"u.1"' }
  }

  #credential({ organization, credentialId }: { organization: string; credentialId: string }) {
    if (credentialId !== credentialIn(organization) || !this.#organizations.includes(organization)) {
      throw new Problem('not_found')
    }
    return { credential: credentialOf(credentialId), etag: '"u.1"' }
  }

  #published(): Published {
    return { eventId: EVENT_ID, deliveries: 1, replayed: this.replayed }
  }
}

/** The delivery of an organization: `DELIVERY_ID` of `acme`. */
export function deliveryIn(organization: string): string {
  const digits = Buffer.from(organization).toString('hex').slice(-8).padStart(8, '0')
  return organization === 'acme' ? DELIVERY_ID : `msg_000000000000000000${digits}`
}

/** The endpoint of an organization. */
export function idIn(organization: string): string {
  return `whe_of-${organization}`
}

/** The credential of an organization. */
export function credentialIn(organization: string): string {
  return `rc_of-${organization}`
}

const OWN_SETTINGS = { externalId: 'davit-abcdefgh', parameterPrefix: '/davit/acme' }
const READY = {
  type: 'Ready',
  status: 'True',
  reason: 'Connected',
  message: 'Davit can store secrets in the account.',
  lastTransitionTime: AT,
} as const

const LINE: DeliveryLine = {
  deliveryId: DELIVERY_ID,
  endpointId: 'whe_billing',
  eventType: 'environment.started',
  status: 'succeeded',
  attemptCount: 1,
  completedAt: AT,
  createdAt: AT,
}

function eventOf(eventId: string) {
  const statuses = { pending: 0, retrying: 1, succeeded: 1, exhausted: 0, canceled: 0 }
  return { eventId, type: 'environment.started', deliveries: 2, statuses, createdAt: AT }
}

function endpointOf(endpointId: string): EndpointResource {
  return {
    endpointId,
    url: 'https://example.com/hooks',
    eventTypes: ['*'],
    ordered: false,
    status: 'enabled',
    consecutiveFailures: 0,
    concurrency: 8,
    createdAt: AT,
    updatedAt: AT,
  }
}

function credentialOf(id: string): CredentialResource {
  return {
    id,
    label: 'Our images',
    registry: 'ghcr.io',
    type: 'token',
    username: 'bot',
    createdAt: AT,
    updatedAt: AT,
  }
}

function defined<T extends object>(fields: T): { [K in keyof T]?: Exclude<T[K], undefined> } {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined)) as never
}

export function templateIn(organization: string): string {
  return `of-${organization}`
}

function templateOf(name: string) {
  return {
    name,
    services: [{ name: 'web', kind: 'custom' as const, image: 'ghcr.io/acme/web:1' }],
    bake: { state: 'running' as const, number: 1, startedAt: AT },
    conditions: [],
    createdAt: AT,
  }
}
