/** What the process knows of registry credentials: the newest version seen, from the watch or from its own writes. */
import type { RegistryCredential } from '../apis/registry-credential.ts'
import { RecentSet } from '../lib/lru.ts'

/** A read or a write may be under way for minutes; no more credentials than these go meanwhile. */
const MAX_REMOVED = 10_000

export class CredentialDirectory {
  readonly #namespaces = new Map<string, Map<string, RegistryCredential>>()
  /** UIDs of those that went of late. */
  readonly #removed = new RecentSet(MAX_REMOVED)

  inNamespace(namespace: string): RegistryCredential[] {
    return [...(this.#namespaces.get(namespace)?.values() ?? [])]
  }

  /** A version from the watch; an older one than what is known changes nothing. */
  apply(credential: RegistryCredential): void {
    // One that went is there again when the store was set back: the watch knows.
    this.#removed.delete(credential.metadata.uid)
    this.#take(credential)
  }

  /**
   * A version from a read or our own write. The watch may have told its end while that was under way, and will tell it no
   * second time: what is known to have gone stays gone.
   */
  learn(credential: RegistryCredential): void {
    if (!this.#removed.has(credential.metadata.uid)) this.#take(credential)
  }

  remove({ metadata: { namespace = '', name, uid } }: RegistryCredential): void {
    this.#removed.add(uid)
    const held = this.#namespaces.get(namespace)
    if (held?.get(name)?.metadata.uid !== uid) return
    held.delete(name)
    if (held.size === 0) this.#namespaces.delete(namespace)
  }

  #take(credential: RegistryCredential): void {
    const { namespace = '', name, uid, resourceVersion } = credential.metadata
    const held = this.#namespaces.get(namespace) ?? new Map<string, RegistryCredential>()
    const known = held.get(name)
    if (known && Number(known.metadata.resourceVersion) >= Number(resourceVersion)) return
    if (known && known.metadata.uid !== uid) this.#removed.add(known.metadata.uid)
    this.#namespaces.set(namespace, held.set(name, shown(credential)))
  }
}

/** Of the status no more than an owner is shown. */
function shown({ metadata, spec, status }: RegistryCredential): RegistryCredential {
  const { updatedAt, observedGeneration = -1 } = status ?? {}
  return {
    metadata,
    spec,
    ...(updatedAt === undefined ? {} : { status: { updatedAt, observedGeneration } }),
  }
}
