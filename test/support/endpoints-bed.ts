/** The endpoints of the REST server on a store in memory with a simulated controller, with time that tests step. */

import { secrets } from '../../src/apis/core-kinds.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { createUrlPolicy } from '../../src/net/egress-policy.ts'
import type { EndpointDraft, EndpointId } from '../../src/server/endpoint-resource.ts'
import { EndpointService } from '../../src/server/endpoints.ts'
import type { ReplicaBarrier } from '../../src/server/peers.ts'
import { EndpointDirectory, signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import { readKeys } from '../../src/webhooks/endpoints/signing-keys.ts'
import { keysInStatus, type SigningKey } from '../../src/webhooks/sender/key-rotation.ts'
import { codeOf } from './code-of.ts'
import { FakeClock, settle } from './fake-clock.ts'
import { FaultyApi } from './faulty-api.ts'
import { Replica, SharedLog } from './key-replicas.ts'
import { MemoryStore } from './memory-store.ts'

const SYSTEM = 'davit-system'
export const ACME = 'acme'

const nothing = () => undefined

export function draft(more: Partial<EndpointDraft> = {}): EndpointDraft {
  return { url: 'https://receiver.example/hooks', eventTypes: ['environment.started'], ...more }
}

export const NO_REPLICAS = {
  untilKnown: async () => undefined,
  untilRemovalKnown: async () => undefined,
  untilEarlierRemovalKnown: async () => undefined,
} as unknown as ReplicaBarrier

export class EndpointsBed {
  readonly clock = new FakeClock()
  readonly log = new SharedLog()
  readonly replica = new Replica(this.log, this.clock)
  readonly store = new MemoryStore(() => this.clock.now())
  readonly api = new FaultyApi(this.store)
  readonly directory = new EndpointDirectory()
  readonly endpoints: EndpointService
  /** There is only one replica. */
  readonly replicas = { ...NO_REPLICAS } as ReplicaBarrier
  /** The reason why the watch of endpoints may be incomplete. */
  behind: string | undefined
  /** Whether a controller has to stop before an endpoint is deleted. */
  driven = false
  /** Whether the controller is inactive. */
  away = false

  readonly #maxEndpoints: number
  /** Of the other servers. */
  readonly #others: { replica: Replica; directory: EndpointDirectory }[] = []

  constructor(maxEndpoints = 500) {
    this.#maxEndpoints = maxEndpoints
    this.endpoints = this.#service(this.replica, this.directory)
  }

  /** Another REST server, whose watch shows none of the endpoints that others make. */
  another(): EndpointService {
    const replica = new Replica(this.log, this.clock, undefined, this.#others.length + 2)
    const other = { replica, directory: new EndpointDirectory() }
    this.#others.push(other)
    return this.#service(other.replica, other.directory)
  }

  #service(replica: Replica, directory: EndpointDirectory): EndpointService {
    return new EndpointService({
      resources: this.api,
      namespace: SYSTEM,
      directory,
      behind: () => this.behind,
      catalogue: { unknown: () => [] },
      urlGuard: createUrlPolicy({ allowed: ['10.0.0.0/8'], hosts: ['hooks.corp.example'] }),
      keys: replica.keys,
      replicas: this.replicas,
      controllers: { anyLives: async () => this.driven },
      maxEndpoints: this.#maxEndpoints,
      clock: this.clock,
      random: { fraction: () => 0.5, bytes: (count) => crypto.getRandomValues(new Uint8Array(count)) },
      log: { info: nothing, warn: nothing, error: nothing },
    })
  }

  /** Returns the answer, while the log is delivered and the controller does its work, which may be none. Time stands still. */
  async answer<T>(answer: Promise<T>): Promise<T> {
    const over = new AbortController()
    const end = () => over.abort()
    answer.then(end, end)
    for (let turn = 0; turn < 100 && !over.signal.aborted; turn += 1) await this.turn()
    return await answer
  }

  /** The error code after this many milliseconds without an acknowledgement. */
  async late(answer: Promise<unknown>, ms = 5000): Promise<string> {
    const code = codeOf(answer)
    for (let turn = 0; turn < 20; turn += 1) await this.turn()
    await this.clock.elapse(ms)
    return await code
  }

  async turn(): Promise<void> {
    await settle(1)
    for (const { replica } of [this, ...this.#others]) replica.show()
    if (!this.away) await this.#acknowledge()
  }

  async make(more: Partial<EndpointDraft> = {}): Promise<EndpointId & { secret: string }> {
    const { endpoint, secret = '' } = await this.answer(this.endpoints.create(ACME, draft(more), {}))
    return { organization: ACME, endpointId: endpoint.endpointId, secret }
  }

  async keysOf({ endpointId }: Pick<EndpointId, 'endpointId'>): Promise<readonly SigningKey[]> {
    const name = signingSecretName(ACME, endpointId.slice('whe_'.length))
    return readKeys(await this.store.get(secrets, { namespace: SYSTEM, name })).keys.keys
  }

  async #acknowledge(): Promise<void> {
    for (const raw of this.store.all(webhookEndpoints)) {
      const { metadata, status } = webhookEndpoint.parse(raw)
      const { namespace, name, generation = 0 } = metadata
      const keys = await this.keysOf({ endpointId: `whe_${name}` })
      const next = {
        observedGeneration: generation,
        signingSecrets: keysInStatus(keys, this.clock.now()),
        updatedAt: status?.updatedAt ?? new Date(this.clock.now()).toISOString(),
      }
      if (JSON.stringify(next.signingSecrets) === JSON.stringify(status?.signingSecrets)) continue
      const patch = { status: next }
      const how = { subresource: 'status' } as const
      const patched = await this.store.patch(webhookEndpoints, { namespace, name }, patch, how)
      this.directory.apply(webhookEndpoint.parse(patched))
      for (const { directory } of this.#others)
        if (directory.get(namespace ?? '', name)) directory.apply(webhookEndpoint.parse(patched))
    }
  }
}
