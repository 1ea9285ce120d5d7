/** Endpoints as the replicas of the facade know them: what is published through any of them after a change was answered goes by it. */
import type { WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { RefusedError } from './http/refused-error.ts'
import type { PeerServers } from './other-facades.ts'
import type { EndpointProgress } from './replica-barrier.ts'

/** What a writer of endpoints waits for before it answers. */
export interface EndpointReplicas {
  /** Resolves when the endpoint is known everywhere as it is given here. @throws RefusedError not_acknowledged */
  know(endpoint: WebhookEndpoint): Promise<void>
  /** Resolves when it is known everywhere that it is gone. @throws RefusedError not_acknowledged */
  knowRemoval(of: RemovedEndpoint): Promise<void>
  /** The same for whoever repeats a deletion that was not acknowledged; at once for what was. */
  knowRemovalBefore(of: { namespace: string; name: string }): Promise<void>
}

type RemovedEndpoint = { namespace: string; name: string; uid: string }

const RETRY_AFTER_SECONDS = 2
const MAX_UNKNOWN = 1000
const LATE =
  'It is stored. Another replica of the REST API has not seen it yet, so that what is published there may still go by what was before.'

export class ReplicaBarrier implements EndpointReplicas {
  readonly #others: Pick<PeerServers, 'haveSeen'>
  readonly #progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>
  /** UIDs of what went and was not acknowledged, by namespace and name. */
  readonly #unknown = new Map<string, string>()

  constructor(
    others: Pick<PeerServers, 'haveSeen'>,
    progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>,
  ) {
    this.#others = others
    this.#progress = progress
  }

  know(endpoint: WebhookEndpoint): Promise<void> {
    return this.#wait(() => this.#progress.versionOf(endpoint))
  }

  async knowRemoval({ namespace, name, uid }: RemovedEndpoint): Promise<void> {
    const key = `${namespace}/${name}`
    this.#unknown.set(key, uid)
    const [oldest] = this.#unknown.keys()
    if (this.#unknown.size > MAX_UNKNOWN && oldest !== undefined) this.#unknown.delete(oldest)
    await this.#wait(() => this.#progress.removalOf(uid))
    if (this.#unknown.get(key) === uid) this.#unknown.delete(key)
  }

  async knowRemovalBefore({ namespace, name }: { namespace: string; name: string }): Promise<void> {
    const uid = this.#unknown.get(`${namespace}/${name}`)
    if (uid !== undefined) await this.knowRemoval({ namespace, name, uid })
  }

  async #wait(needed: () => number | undefined): Promise<void> {
    if (await this.#others.haveSeen(needed)) return
    throw new RefusedError('not_acknowledged', { detail: LATE, retryAfter: RETRY_AFTER_SECONDS })
  }
}
