import type { CloudAccess } from '../cloud.ts'

/**
 * What a session is for: to write and never read, or to find out whether the role could read, for which the session itself
 * must not be what refuses.
 */
export type SessionPurpose = 'write' | 'probe'

/** What Davit asks for when it assumes the role of an organization. */
export type SessionTerms = {
  /** Seen in the organization's own trail; word characters and `+=,.@-`, at most 64. */
  name: string
  /** IAM policy that narrows the session, as JSON, at most 2,048 characters. */
  policy: string
  tags: Readonly<Record<string, string>>
}

/** The terms of an organization's session; they are decided outside, since they are rules and not calls. Pure. */
export type SessionRules = (access: CloudAccess, purpose: SessionPurpose) => SessionTerms
