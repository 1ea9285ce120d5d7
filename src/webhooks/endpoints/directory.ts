import { LRUCache } from 'lru-cache'
import { API_VERSION, type ObjectMeta } from '../../apis/meta.ts'
import {
  type WebhookEndpoint,
  webhookEndpoint,
  webhookEndpointKind,
  webhookEndpoints,
} from '../../apis/webhook-endpoint.ts'
import { isApiError, type ResourceReader, type ResourceWriter } from '../../kube/client.ts'
import { KeyedMutex } from '../../lib/semaphore.ts'
import type { SigningKey } from '../sender/signature.ts'
import { decideState, type StateDecision } from './plan.ts'

/** What an Event about an endpoint refers to. */
export function endpointReference(metadata: ObjectMeta) {
  return { apiVersion: API_VERSION, kind: webhookEndpointKind.kind, metadata }
}

/**
 * What the process knows of endpoints: the newest version seen, from the watch or from its own writes, what
 * follows from it (enabled or not), and the signing keys.
 */

/** The keys of the endpoint with this UID, and the version of the Secret that holds them. */
export type EndpointKeys = {
  endpointUid: string
  keys: readonly SigningKey[]
  version: string
  /** When a restore made the Secret, whose keys are for the first endpoint of that name. */
  restoredAt?: string | undefined
}

export type EndpointView = {
  endpoint: WebhookEndpoint
  decision: StateDecision
  /** Enabled and not being deleted. */
  enabled: boolean
  /** Absent until they are made. */
  keys?: EndpointKeys | undefined
}

export type DirectoryListener = {
  changed(view: EndpointView): void
  removed(endpoint: WebhookEndpoint): void
}

/** A read or a write may be under way for minutes; no more endpoints than these go meanwhile. */
const MAX_REMOVED = 10_000

export class EndpointDirectory {
  readonly #namespaces = new Map<string, Map<string, EndpointView>>()
  /** Keys by `<namespace>.<endpoint>`, the name of their Secret. */
  readonly #keys = new Map<string, EndpointKeys>()
  /** The last version of those that went of late, by their Secret: a read that was under way may still show them. */
  readonly #goneKeys = new LRUCache<string, number>({ max: MAX_REMOVED })
  readonly #listeners: DirectoryListener[] = []
  /** UIDs of those that went of late. */
  readonly #removed = new LRUCache<string, true>({ max: MAX_REMOVED })
  /** UIDs of those that a list has not shown, with its version, until the watch has told their end as well. */
  readonly #absent = new Map<string, number>()

  listen(listener: DirectoryListener): void {
    this.#listeners.push(listener)
  }

  get(namespace: string, name: string): EndpointView | undefined {
    return this.#namespaces.get(namespace)?.get(name)
  }

  /** The endpoint with exactly this UID. */
  find(of: { namespace: string; name: string; uid: string }): EndpointView | undefined {
    const view = this.get(of.namespace, of.name)
    return view?.endpoint.metadata.uid === of.uid ? view : undefined
  }

  inNamespace(namespace: string): EndpointView[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])]
  }

  *all(): IterableIterator<EndpointView> {
    for (const views of this.#namespaces.values()) yield* views.values()
  }

  /** A version from the watch; an older one than what is known changes nothing. */
  apply(endpoint: WebhookEndpoint): void {
    const { uid, resourceVersion } = endpoint.metadata
    // The watch is behind: it tells what was before the end.
    if (Number(resourceVersion) <= (this.#absent.get(uid) ?? 0)) return
    // One that went is there again when the store was set back: the watch knows.
    this.#removed.delete(uid)
    this.#take(endpoint)
  }

  /**
   * A version from a read or our own write. The watch may have told the end of the endpoint while that was under way,
   * and will tell it no second time: what is known to have gone stays gone.
   */
  applyRead(endpoint: WebhookEndpoint): void {
    if (!this.#removed.has(endpoint.metadata.uid)) this.#take(endpoint)
  }

  /**
   * The end of a list that was read: what is known to have been there by then, and is not in it, has gone, though the watch may
   * be behind. @param uids of all that are in it. @param version of the list
   */
  applyList(uids: ReadonlySet<string>, version: number): void {
    for (const { endpoint } of [...this.all()]) {
      const { uid, resourceVersion } = endpoint.metadata
      if (uids.has(uid) || Number(resourceVersion) > version) continue
      this.remove(endpoint)
      this.#absent.set(uid, version)
    }
  }

  #take(endpoint: WebhookEndpoint): void {
    const { namespace = '', name, uid, resourceVersion } = endpoint.metadata
    const held = this.get(namespace, name)
    if (held && held.endpoint.metadata.uid === uid) {
      if (Number(held.endpoint.metadata.resourceVersion) >= Number(resourceVersion)) return
    } else if (held) {
      if (Number(held.endpoint.metadata.resourceVersion) > Number(resourceVersion)) return
      this.remove(held.endpoint)
    }
    const view = viewOf(endpoint, this.#keysFor(namespace, name, uid))
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

  /** From the watch, a read or our own write; what is not newer than what is known changes nothing. */
  applyKeys(namespace: string, name: string, keys: EndpointKeys): void {
    const secret = signingSecretName(namespace, name)
    const known = Math.max(Number(this.#keys.get(secret)?.version ?? 0), this.#goneKeys.get(secret) ?? 0)
    if (known >= Number(keys.version)) return
    this.#goneKeys.delete(secret)
    this.#keys.set(secret, keys)
    this.#keysChanged(namespace, name)
  }

  /** @param version of their end, or the last before it: those that were made anew since stay */
  removeKeys(namespace: string, name: string, version: number): void {
    const secret = signingSecretName(namespace, name)
    if (Number(this.#keys.get(secret)?.version ?? 0) > version) return
    this.#goneKeys.set(secret, version)
    if (this.#keys.delete(secret)) this.#keysChanged(namespace, name)
  }

  /** Keys of endpoints that are not known: those went while nobody watched, or are still to be made. */
  keysWithoutEndpoint(): { namespace: string; name: string; keys: EndpointKeys }[] {
    const orphans: { namespace: string; name: string; keys: EndpointKeys }[] = []
    for (const [secret, keys] of this.#keys) {
      const [namespace = '', name = ''] = secret.split('.')
      if (!this.find({ namespace, name, uid: keys.endpointUid })) orphans.push({ namespace, name, keys })
    }
    return orphans
  }

  #keysChanged(namespace: string, name: string): void {
    const held = this.get(namespace, name)
    if (!held) return
    const view = viewOf(held.endpoint, this.#keysFor(namespace, name, held.endpoint.metadata.uid))
    this.#namespaces.get(namespace)?.set(name, view)
    for (const listener of this.#listeners) listener.changed(view)
  }

  #keysFor(namespace: string, name: string, uid: string): EndpointKeys | undefined {
    const keys = this.#keys.get(signingSecretName(namespace, name))
    return keys?.endpointUid === uid ? keys : undefined
  }
}

/** Name of the Secret, in the operator's namespace, that holds an endpoint's keys. */
export function signingSecretName(namespace: string, endpoint: string): string {
  return `${namespace}.${endpoint}`
}

function viewOf(endpoint: WebhookEndpoint, keys: EndpointKeys | undefined): EndpointView {
  const decision = decideState(endpoint)
  const enabled = decision.state === 'enabled' && endpoint.metadata.deletionTimestamp === undefined
  return { endpoint, decision, enabled, keys }
}

/** The one place that writes the status of endpoints: one writer at a time for each, and what was written is known at once. */

/** Owners change an endpoint now and then, not all the time. */
const MAX_ATTEMPTS = 5

export class EndpointStatusWriter {
  readonly #resources: ResourceReader & ResourceWriter
  readonly #directory: EndpointDirectory
  readonly #mutex = new KeyedMutex()

  constructor(resources: ResourceReader & ResourceWriter, directory: EndpointDirectory) {
    this.#resources = resources
    this.#directory = directory
  }

  /** Runs `act` while nobody else writes this endpoint's status; `act` gets the newest view, if there is one. */
  exclusively<T>(
    of: { namespace: string; name: string; uid: string },
    act: (view: EndpointView | undefined) => Promise<T>,
  ): Promise<T> {
    return this.#mutex.run(of.uid, () => act(this.#directory.find(of)))
  }

  /**
   * Writes a merge patch of the status; call it within `exclusively`. An endpoint that is gone is no error.
   * @param decide the patch for the endpoint as it is; asked anew when somebody else has written. Undefined: nothing is to be written
   * @throws ApiError what may pass by itself
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
        if (isApiError(error, 'NotFound', 'Invalid')) return
        if (!isApiError(error, 'Conflict') || attempt === MAX_ATTEMPTS) throw error
      }
      await this.read(namespace, name)
      view = this.#directory.find({ namespace, name, uid })
    }
  }

  /** The API server overlooks a UID in a patch of a status: only the version keeps it from one made anew. */
  async #patch({ metadata }: WebhookEndpoint, status: object): Promise<void> {
    const { namespace, name, resourceVersion } = metadata
    const patch = { metadata: { resourceVersion }, status }
    const how = { subresource: 'status' } as const
    const written = await this.#resources.patch(webhookEndpoints, { namespace, name }, patch, how)
    this.#directory.applyRead(webhookEndpoint.parse(written))
  }

  /** Reads an endpoint that the watch may not have shown yet. @returns undefined when there is none */
  async read(namespace: string, name: string): Promise<WebhookEndpoint | undefined> {
    try {
      const endpoint = webhookEndpoint.parse(await this.#resources.get(webhookEndpoints, { namespace, name }))
      this.#directory.applyRead(endpoint)
      return endpoint
    } catch (error) {
      if (isApiError(error, 'NotFound')) return undefined
      throw error
    }
  }
}
