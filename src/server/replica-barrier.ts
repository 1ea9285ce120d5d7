import { LRUCache } from 'lru-cache'
import { DISABLE_ANNOTATION, ENABLE_ANNOTATION, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { RefusedError } from './http/problems.ts'
import type { PeerServers } from './peers.ts'

/** At which version each endpoint became what it is for those who publish, as the watch has shown it. */

export type EndpointProgressOptions = {
  /** Everything up to this version was handed on by the watch. */
  seen: () => number
  /** Called when something changed that decides on what an endpoint gets. */
  onChange: () => void
}

/** Somebody may wait for the deletion of these. */
const MAX_REMOVED = 10_000

type Mark = { text: string; version: number }

export class EndpointProgress {
  readonly #options: EndpointProgressOptions
  /** By UID. */
  readonly #marks = new Map<string, Mark>()
  /** Versions at which endpoints went, by UID; those that went of late. */
  readonly #removed = new LRUCache<string, number | { after: number }>({ max: MAX_REMOVED })

  constructor(options: EndpointProgressOptions) {
    this.#options = options
  }

  /** The watch has shown it. */
  applied(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion, deletionTimestamp } = endpoint.metadata
    const text = markOf(endpoint)
    if (this.#marks.get(uid)?.text === text) return
    const version = Number(resourceVersion)
    this.#marks.set(uid, { text, version })
    if (deletionTimestamp !== undefined) this.#removed.set(uid, version)
    this.#options.onChange()
  }

  /** The watch has shown its end. @param version at which; absent: it is gone from a list, whose version is seen when it has ended */
  deleted({ metadata: { uid } }: WebhookEndpoint, version?: number): void {
    this.#marks.delete(uid)
    if (!this.#removed.has(uid)) this.#removed.set(uid, version ?? { after: this.#options.seen() })
    this.#options.onChange()
  }

  /** Whoever has seen this version knows the endpoint as it is given here: later versions changed what does not matter. */
  versionOf(endpoint: WebhookEndpoint): number {
    const { uid, resourceVersion } = endpoint.metadata
    const version = Number(resourceVersion)
    const mark = this.#marks.get(uid)
    const isKnown =
      mark?.text === markOf(endpoint) && mark.version < version && this.#options.seen() >= version
    return isKnown ? mark.version : version
  }

  /** Whoever has seen this version knows that the endpoint is gone; undefined while the watch has not shown it. */
  removalOf(uid: string): number | undefined {
    const noted = this.#removed.get(uid)
    if (typeof noted !== 'object') return noted
    const seen = this.#options.seen()
    if (seen <= noted.after) return undefined
    this.#removed.set(uid, seen)
    return seen
  }
}

/** Its status does not matter: what a controller writes there changes nothing that a request by REST has asked for. */
function markOf({ metadata }: WebhookEndpoint): string {
  const { generation, deletionTimestamp, annotations = {} } = metadata
  return JSON.stringify([
    generation,
    deletionTimestamp !== undefined,
    annotations[ENABLE_ANNOTATION],
    annotations[DISABLE_ANNOTATION],
  ])
}

/** Endpoints as the replicas of the facade know them: what is published through any of them after a change was answered goes by it. */

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
  readonly #unknown = new LRUCache<string, string>({ max: MAX_UNKNOWN })

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
