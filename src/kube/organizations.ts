/** The organizations: labelled namespaces and their owners. */
import { namespace, namespaces } from '../apis/core-kinds.ts'
import { ORGANIZATION_LABEL, OWNER_EMAILS_ANNOTATION } from '../apis/meta.ts'
import { MAX_OWNERS } from '../apis/webhook-endpoint.ts'
import type { RawObject } from './client.ts'

export type Organization = {
  name: string
  /**
   * UID of the namespace; a recreated namespace is another organization. In `Organizations` it is the UID from
   * before a restore, if the cluster operator configured one.
   */
  uid: string
  ownerEmails: string[]
}

/** What the owner of an object is told whose namespace lacks the label. */
export function notAnOrganization(name: string): { reason: 'NotAnOrganization'; message: string } {
  const message = `Namespace ${name} is not an organization: it does not have the label ${ORGANIZATION_LABEL}=true. Ask your cluster operator to add it.`
  return { reason: 'NotAnOrganization', message }
}

export class Organizations {
  readonly #organizations = new Map<string, Organization>()
  readonly #listeners = new Set<(name: string) => void>()
  readonly #former: ReadonlyMap<string, string>

  /** @param former UIDs of namespaces that a restore recreated, each with the one before */
  constructor(former: Iterable<readonly [uid: string, before: string]> = []) {
    this.#former = new Map(former)
  }

  /** The UID by which the AWS account knows the organization of this namespace. */
  originalUid(uid: string): string {
    return this.#former.get(uid) ?? uid
  }

  /** Called with the name of an organization that was added, changed or removed. */
  listen(listener: (name: string) => void): void {
    this.#listeners.add(listener)
  }

  /** Runs `make` and returns a call that removes the listeners that `make` added. */
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

  remove({ name }: Pick<Organization, 'name'>): void {
    this.#organizations.delete(name)
    for (const listener of this.#listeners) listener(name)
  }
}

/** Undefined if the namespace is not an organization. @throws ZodError if it is not a namespace */
export function readOrganization(raw: RawObject): Organization | undefined {
  const { metadata } = namespace.parse(raw)
  if (metadata.labels?.[ORGANIZATION_LABEL] !== 'true') return undefined
  const emails = (metadata.annotations?.[OWNER_EMAILS_ANNOTATION] ?? '')
    .split(',')
    .map((email) => email.trim())
  const ownerEmails = emails.filter((email) => email !== '').slice(0, MAX_OWNERS)
  return { name: metadata.name, uid: metadata.uid, ownerEmails }
}

export const ORGANIZATIONS = {
  type: namespaces,
  query: { labelSelector: `${ORGANIZATION_LABEL}=true` },
  decode: readOrganization,
}
