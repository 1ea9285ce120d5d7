import { LRUCache } from 'lru-cache'
import { DISABLE_ANNOTATION, ENABLE_ANNOTATION, type WebhookEndpoint } from '../apis/webhook-endpoint.ts'
import { Problem } from './http/problems.ts'
import type { NamespacedRef } from './objects.ts'
import type { PeerServers } from './peers.ts'

/**
 * A writer of endpoints waits until every replica of the REST server knows the change before it responds, so that an event
 * published afterwards, through any replica, is delivered accordingly.
 */

export type EndpointProgressOptions = {
  /** The watch has delivered everything up to this version. */
  seen: () => number
  /** Called after a change that affects what an endpoint gets. */
  onChange: () => void
}

/** Deletions that a writer may still wait for. */
const MAX_REMOVED = 10_000

/** The version at which the watch showed each endpoint's last change that matters to publishers. */
export class EndpointProgress {
  readonly #options: EndpointProgressOptions
  /** By UID. */
  readonly #marks = new Map<string, { text: string; version: number }>()
  /** Versions at which the latest deleted endpoints were deleted, by UID. */
  readonly #removed = new LRUCache<string, number | { after: number }>({ max: MAX_REMOVED })

  constructor(options: EndpointProgressOptions) {
    this.#options = options
  }

  /** The watch has shown the endpoint. */
  applied(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion, deletionTimestamp } = endpoint.metadata
    const text = markOf(endpoint)
    if (this.#marks.get(uid)?.text === text) return
    const version = Number(resourceVersion)
    this.#marks.set(uid, { text, version })
    if (deletionTimestamp !== undefined) this.#removed.set(uid, version)
    this.#options.onChange()
  }

  /** The watch has shown the deletion. @param version absent if a list lacks it, whose version is seen at its end */
  deleted({ metadata: { uid } }: WebhookEndpoint, version?: number): void {
    this.#marks.delete(uid)
    if (!this.#removed.has(uid)) this.#removed.set(uid, version ?? { after: this.#options.seen() })
    this.#options.onChange()
  }

  /** A replica that has seen this version knows the endpoint as given: later versions changed nothing that matters. */
  versionOf(endpoint: WebhookEndpoint): number {
    const { uid, resourceVersion } = endpoint.metadata
    const version = Number(resourceVersion)
    const mark = this.#marks.get(uid)
    const isKnown =
      mark?.text === markOf(endpoint) && mark.version < version && this.#options.seen() >= version
    return isKnown ? mark.version : version
  }

  /** A replica that has seen this version knows that the endpoint is gone; undefined until our watch has shown that. */
  removalOf(uid: string): number | undefined {
    const noted = this.#removed.get(uid)
    if (typeof noted !== 'object') return noted
    const seen = this.#options.seen()
    if (seen <= noted.after) return undefined
    this.#removed.set(uid, seen)
    return seen
  }
}

/** Without the status: what a controller writes there does not matter to a REST request. */
function markOf({ metadata }: WebhookEndpoint): string {
  const { generation, deletionTimestamp, annotations = {} } = metadata
  return JSON.stringify([
    generation,
    deletionTimestamp !== undefined,
    annotations[ENABLE_ANNOTATION],
    annotations[DISABLE_ANNOTATION],
  ])
}

const RETRY_AFTER_SECONDS = 2
const MAX_UNACKNOWLEDGED = 1000
const LATE =
  'It is stored. Another replica of the REST API has not seen it yet, so that what is published there may still go by what was before.'

/** All methods @throws Problem not_acknowledged */
export class ReplicaBarrier {
  readonly #peers: Pick<PeerServers, 'haveSeen'>
  readonly #progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>
  /** UIDs of deletions that were not acknowledged, by namespace and name. */
  readonly #unacknowledged = new LRUCache<string, string>({ max: MAX_UNACKNOWLEDGED })

  constructor(
    peers: Pick<PeerServers, 'haveSeen'>,
    progress: Pick<EndpointProgress, 'versionOf' | 'removalOf'>,
  ) {
    this.#peers = peers
    this.#progress = progress
  }

  /** Until all replicas know the endpoint as given. */
  untilKnown(endpoint: WebhookEndpoint): Promise<void> {
    return this.#wait(() => this.#progress.versionOf(endpoint))
  }

  /** Until all replicas know that the endpoint is gone. */
  async untilRemovalKnown({ namespace, name, uid }: NamespacedRef & { uid: string }): Promise<void> {
    const key = `${namespace}/${name}`
    this.#unacknowledged.set(key, uid)
    await this.#wait(() => this.#progress.removalOf(uid))
    if (this.#unacknowledged.get(key) === uid) this.#unacknowledged.delete(key)
  }

  /** The same for the repeat of a deletion that was not acknowledged; returns at once for any other. */
  async untilEarlierRemovalKnown({ namespace, name }: NamespacedRef): Promise<void> {
    const uid = this.#unacknowledged.get(`${namespace}/${name}`)
    if (uid !== undefined) await this.untilRemovalKnown({ namespace, name, uid })
  }

  async #wait(needed: () => number | undefined): Promise<void> {
    if (await this.#peers.haveSeen(needed)) return
    throw new Problem('not_acknowledged', { detail: LATE, retryAfter: RETRY_AFTER_SECONDS })
  }
}
