import { LRUCache } from 'lru-cache'
import { API_VERSION } from '../../apis/meta.ts'
import {
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpoints,
} from '../../apis/webhook-endpoint.ts'
import { findObject, isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import type { EventRecorder, RecordedEvent } from '../../kube/recorder.ts'
import type { Logger } from '../../lib/log.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import type { SigningKey } from '../sender/key-rotation.ts'
import { decideState, type StateDecision } from './plan.ts'

/**
 * What the process knows of endpoints: the newest version from the watch or its own writes, the decision that follows
 * from it, and the signing keys. The status writer is here too: it is the only writer of the status, one at a time per
 * endpoint, and the directory knows its writes at once.
 */

export function recordEndpointEvent(
  recorder: EventRecorder,
  { metadata }: WebhookEndpoint,
  type: RecordedEvent['type'],
  reason: string,
  message: string,
): void {
  recorder.record(
    { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata },
    { type, reason, message },
  )
}

export type EndpointIdentity = { readonly namespace: string; readonly name: string; readonly uid: string }

/** The keys of the endpoint with this UID, and the version of the Secret that holds them. */
export type EndpointKeys = {
  endpointUid: string
  keys: readonly SigningKey[]
  version: string
  /** When a restore created the Secret, whose keys are for the first endpoint of that name. */
  restoredAt?: string | undefined
}

export type EndpointView = {
  endpoint: WebhookEndpoint
  decision: StateDecision
  /** Enabled and not being deleted. */
  enabled: boolean
  /** Absent until they exist. */
  keys?: EndpointKeys | undefined
}

export type DirectoryListener = {
  changed(view: EndpointView): void
  removed(endpoint: WebhookEndpoint): void
}

/** A read or a write may take minutes; no more endpoints than these are deleted in that time. */
const MAX_REMOVED = 10_000

export class EndpointDirectory {
  readonly #namespaces = new Map<string, Map<string, EndpointView>>()
  /** Keys by `<namespace>.<endpoint>`, the name of their Secret. */
  readonly #keys = new Map<string, EndpointKeys>()
  /** The last version of recently deleted keys, by their Secret: a read in progress may still return them. */
  readonly #deletedKeys = new LRUCache<string, number>({ max: MAX_REMOVED })
  readonly #listeners: DirectoryListener[] = []
  /** UIDs of recently deleted endpoints. */
  readonly #removed = new LRUCache<string, true>({ max: MAX_REMOVED })
  /** UIDs that a list lacked, with the version of the list, until the watch reports their deletion. */
  readonly #absent = new Map<string, number>()

  listen(listener: DirectoryListener): void {
    this.#listeners.push(listener)
  }

  get(namespace: string, name: string): EndpointView | undefined {
    return this.#namespaces.get(namespace)?.get(name)
  }

  /** The endpoint with exactly this UID. */
  find({ namespace, name, uid }: EndpointIdentity): EndpointView | undefined {
    const view = this.get(namespace, name)
    return view?.endpoint.metadata.uid === uid ? view : undefined
  }

  inNamespace(namespace: string): EndpointView[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])]
  }

  *all(): IterableIterator<EndpointView> {
    for (const views of this.#namespaces.values()) yield* views.values()
  }

  /** A version from the watch; an older one than the known one changes nothing. */
  apply(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion } = endpoint.metadata
    // The watch is behind: this is from before the deletion.
    if (Number(resourceVersion) <= (this.#absent.get(uid) ?? 0)) return
    // It may exist again if etcd was restored: the watch is right.
    this.#removed.delete(uid)
    this.#update(endpoint)
  }

  /**
   * A version from a read or our own write. The watch may have reported the deletion in the meantime, and will not do so
   * again: what was deleted stays deleted.
   */
  applyRead(endpoint: WebhookEndpoint): void {
    if (!this.#removed.has(endpoint.metadata.uid)) this.#update(endpoint)
  }

  /**
   * After a complete list: endpoints that are older than the list and not in it are deleted, even if the watch is behind.
   * @param uids of all endpoints in the list @param version of the list
   */
  applyList(uids: ReadonlySet<string>, version: number): void {
    for (const { endpoint } of [...this.all()]) {
      const { uid, resourceVersion } = endpoint.metadata
      if (uids.has(uid) || Number(resourceVersion) > version) continue
      this.remove(endpoint)
      this.#absent.set(uid, version)
    }
  }

  #update(endpoint: WebhookEndpoint): void {
    const { namespace = '', name, uid, resourceVersion } = endpoint.metadata
    const held = this.get(namespace, name)
    if (held && held.endpoint.metadata.uid === uid) {
      if (Number(held.endpoint.metadata.resourceVersion) >= Number(resourceVersion)) return
    } else if (held) {
      if (Number(held.endpoint.metadata.resourceVersion) > Number(resourceVersion)) return
      this.remove(held.endpoint)
    }
    this.#setView(endpoint)
  }

  #setView(endpoint: WebhookEndpoint): void {
    const { namespace = '', name, uid, deletionTimestamp } = endpoint.metadata
    const keys = this.#keys.get(signingSecretName(namespace, name))
    const decision = decideState(endpoint)
    const enabled = decision.state === 'enabled' && deletionTimestamp === undefined
    const view = { endpoint, decision, enabled, keys: keys?.endpointUid === uid ? keys : undefined }
    const views = this.#namespaces.get(namespace) ?? new Map<string, EndpointView>()
    views.set(name, view)
    this.#namespaces.set(namespace, views)
    for (const listener of this.#listeners) listener.changed(view)
  }

  remove(endpoint: WebhookEndpoint): void {
    const { namespace = '', name, uid } = endpoint.metadata
    this.#removed.set(uid, true)
    this.#absent.delete(uid)
    const views = this.#namespaces.get(namespace)
    const held = views?.get(name)
    if (!views || held?.endpoint.metadata.uid !== uid) return
    views.delete(name)
    if (views.size === 0) this.#namespaces.delete(namespace)
    for (const listener of this.#listeners) listener.removed(held.endpoint)
  }

  /** From the watch, a read or our own write; only a newer version than the known one has an effect. */
  applyKeys(namespace: string, name: string, keys: EndpointKeys): void {
    const secret = signingSecretName(namespace, name)
    const known = Math.max(Number(this.#keys.get(secret)?.version ?? 0), this.#deletedKeys.get(secret) ?? 0)
    if (known >= Number(keys.version)) return
    this.#deletedKeys.delete(secret)
    this.#keys.set(secret, keys)
    this.#keysChanged(namespace, name)
  }

  /** @param version of the deletion, or the last one before it: keys created since then stay */
  removeKeys(namespace: string, name: string, version: number): void {
    const secret = signingSecretName(namespace, name)
    if (Number(this.#keys.get(secret)?.version ?? 0) > version) return
    this.#deletedKeys.set(secret, version)
    if (this.#keys.delete(secret)) this.#keysChanged(namespace, name)
  }

  /** Keys of unknown endpoints: deleted while no controller was running, or not created yet. */
  keysWithoutEndpoint(): { namespace: string; name: string; keys: EndpointKeys }[] {
    const unowned: { namespace: string; name: string; keys: EndpointKeys }[] = []
    for (const [secret, keys] of this.#keys) {
      const [namespace = '', name = ''] = secret.split('.')
      if (!this.find({ namespace, name, uid: keys.endpointUid })) unowned.push({ namespace, name, keys })
    }
    return unowned
  }

  #keysChanged(namespace: string, name: string): void {
    const held = this.get(namespace, name)
    if (held) this.#setView(held.endpoint)
  }
}

/** Name of the Secret, in the controller's namespace, that holds an endpoint's keys. */
export function signingSecretName(namespace: string, endpoint: string): string {
  return `${namespace}.${endpoint}`
}

/** Owners change an endpoint now and then, not all the time. */
const MAX_ATTEMPTS = 5

export class EndpointStatusWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #directory: EndpointDirectory
  readonly #log: Logger
  readonly #mutex = new KeyedMutex()
  /** By UID, the version of the endpoint for which a rejected status was last logged. */
  readonly #rejected = new LRUCache<string, string>({ max: MAX_REMOVED })

  constructor(resources: ResourceReader & ResourceWriter, directory: EndpointDirectory, log: Logger) {
    this.#resources = resources
    this.#directory = directory
    this.#log = log
  }

  /** Runs `act` with the newest view, if any, while nothing else in this process writes this endpoint's status. */
  exclusively<T>(
    identity: EndpointIdentity,
    act: (view: EndpointView | undefined) => Promise<T>,
  ): Promise<T> {
    return this.#mutex.run(identity.uid, () => act(this.#directory.find(identity)))
  }

  /**
   * Writes a merge patch of the status; call it within `exclusively`. A deleted endpoint is not an error. A rejected status is logged and
   * given up: deliveries do not wait for it.
   * @param decide the patch for the current endpoint, or undefined for none; called again after a conflict
   * @throws ApiError if a retry may succeed
   */
  async write(seen: EndpointView, decide: (view: EndpointView) => object | undefined): Promise<void> {
    const { namespace = '', name, uid } = seen.endpoint.metadata
    let view: EndpointView | undefined = seen
    for (let attempt = 1; view; attempt += 1) {
      const status = decide(view)
      if (!status) return
      try {
        return await this.#patch(view.endpoint, status)
      } catch (error) {
        if (isApiError(error, 'NotFound')) return
        if (isApiError(error, 'Invalid')) return this.#logRejected(view, error)
        if (!isApiError(error, 'Conflict') || attempt === MAX_ATTEMPTS) throw error
      }
      await this.read(namespace, name)
      view = this.#directory.find({ namespace, name, uid })
    }
  }

  /** Once for each version of the endpoint: every success after a failure would write its status. */
  #logRejected({ endpoint: { metadata } }: EndpointView, error: unknown): void {
    const { namespace, name, uid, resourceVersion } = metadata
    if (this.#rejected.get(uid) === resourceVersion) return
    this.#rejected.set(uid, resourceVersion)
    const message = 'API server rejected the status of a WebhookEndpoint; it is not disabled automatically'
    this.#log.error('endpoint_status_rejected', message, { namespace, endpoint: name, error })
  }

  /** The API server ignores the UID in a status patch: only the version protects an endpoint created again. */
  async #patch({ metadata }: WebhookEndpoint, status: object): Promise<void> {
    const { namespace, name, resourceVersion } = metadata
    const patch = { metadata: { resourceVersion }, status }
    const written = await this.#resources.patch(webhookEndpoints, { namespace, name }, patch, {
      subresource: 'status',
    })
    this.#directory.applyRead(webhookEndpoint.parse(written))
  }

  /** Reads an endpoint that the watch may not have reported yet. */
  async read(namespace: string, name: string): Promise<WebhookEndpoint | undefined> {
    const found = await findObject(this.#resources, webhookEndpoints, { namespace, name })
    if (!found) return undefined
    const endpoint = webhookEndpoint.parse(found)
    this.#directory.applyRead(endpoint)
    return endpoint
  }
}
