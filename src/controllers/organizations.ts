/** The organizations: namespaces with the label, and who owns them. */
import { namespace } from '../api/core-kinds.ts'
import { ORGANIZATION_LABEL, OWNER_EMAILS_ANNOTATION } from '../api/meta.ts'
import type { RawObject } from '../ports/kubernetes.ts'

export type Organization = {
  name: string
  /** Of the namespace: one that was made again under the same name is another organization. */
  uid: string
  ownerEmails: string[]
}

const MAX_OWNERS = 50

export class Organizations {
  readonly #organizations = new Map<string, Organization>()
  readonly #listeners: ((name: string) => void)[] = []

  /** Told of an organization that came, changed or went. */
  listen(listener: (name: string) => void): void {
    this.#listeners.push(listener)
  }

  get(name: string): Organization | undefined {
    return this.#organizations.get(name)
  }

  apply(organization: Organization): void {
    this.#organizations.set(organization.name, organization)
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
