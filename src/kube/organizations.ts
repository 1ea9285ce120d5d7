/** The organizations: namespaces with the label, and who owns them. */
import { namespace } from '../apis/core-kinds.ts'
import { ORGANIZATION_LABEL, OWNER_EMAILS_ANNOTATION } from '../apis/meta.ts'
import type { RawObject } from './client.ts'

export type Organization = {
  name: string
  /**
   * Of the namespace: one that was made again under the same name is another organization. In `Organizations` it is the one that the
   * operator says it had before a restore.
   */
  uid: string
  ownerEmails: string[]
}

const MAX_OWNERS = 50

export class Organizations {
  readonly #organizations = new Map<string, Organization>()
  readonly #listeners = new Set<(name: string) => void>()
  readonly #former: ReadonlyMap<string, string>

  /** @param former UIDs of namespaces that a restore has made anew, each with the one before */
  constructor(former: Iterable<readonly [uid: string, before: string]> = []) {
    this.#former = new Map(former)
  }

  /** As whom its account knows the organization whose namespace has this UID. */
  originalUid(uid: string): string {
    return this.#former.get(uid) ?? uid
  }

  /** Told of an organization that came, changed or went. */
  listen(listener: (name: string) => void): void {
    this.#listeners.add(listener)
  }

  /** @returns what was made, and the call after which its listeners are told nothing more */
  whileMaking<T>(make: () => T): { made: T; forget: () => void } {
    const before = new Set(this.#listeners)
    const made = make()
    const added = [...this.#listeners].filter((listener) => !before.has(listener))
    return { made, forget: () => added.forEach((listener) => void this.#listeners.delete(listener)) }
  }

  get(name: string): Organization | undefined {
    return this.#organizations.get(name)
  }

  apply(organization: Organization): void {
    const uid = this.originalUid(organization.uid)
    this.#organizations.set(organization.name, { ...organization, uid })
    for (const listener of this.#listeners) listener(organization.name)
  }

  remove(name: string): void {
    this.#organizations.delete(name)
    for (const listener of this.#listeners) listener(name)
  }
}

/** Undefined when the namespace is no organization. @throws ZodError when it is no namespace */
export function readOrganization(raw: RawObject): Organization | undefined {
  const { metadata } = namespace.parse(raw)
  if (metadata.labels?.[ORGANIZATION_LABEL] !== 'true') return undefined
  const emails = (metadata.annotations?.[OWNER_EMAILS_ANNOTATION] ?? '')
    .split(',')
    .map((email) => email.trim())
  const ownerEmails = emails.filter((email) => email !== '').slice(0, MAX_OWNERS)
  return { name: metadata.name, uid: metadata.uid, ownerEmails }
}
