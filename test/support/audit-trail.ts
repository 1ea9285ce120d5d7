/** Reads from the audit log of an API server who did what, and which right allowed it. */
import { readFile } from 'node:fs/promises'
import { z } from 'zod'

/** The attributes that RBAC evaluates: `group` and `namespace` may be empty. */
export type Deed = { verb: string; group: string; resource: string; subresource: string; namespace: string }

export type AuditEntry = Deed & {
  user: string
  name: string
  /** HTTP status; 200 for a watch that still runs. */
  code: number
  /** The role that allowed it, in the API server's wording; empty if none did. */
  allowedBy: string
  /** The subject of a SubjectAccessReview. */
  question?: Deed & { user: string }
}

const text = z.string().default('')
const attributes = z.object({ verb: text, group: text, resource: text, subresource: text, namespace: text })

const event = z.object({
  verb: z.string(),
  user: z.object({ username: z.string() }),
  objectRef: z
    .object({ apiGroup: text, resource: text, subresource: text, namespace: text, name: text })
    .default({ apiGroup: '', resource: '', subresource: '', namespace: '', name: '' }),
  responseStatus: z.object({ code: z.number().default(0) }).default({ code: 0 }),
  annotations: z.record(z.string(), z.string()).default({}),
  requestObject: z
    .object({ spec: z.object({ user: text, resourceAttributes: attributes.optional() }).nullish() })
    .nullish(),
})

/** @param path of a log of level Request or higher */
export async function readAuditTrail(path: string): Promise<AuditEntry[]> {
  const lines = (await readFile(path, 'utf8')).split('\n').filter((line) => line !== '')
  return lines.map(readAuditLine)
}

export function readAuditLine(line: string): AuditEntry {
  return entryOf(JSON.parse(line))
}

function entryOf(raw: unknown): AuditEntry {
  const { verb, user, objectRef, responseStatus, annotations, requestObject } = event.parse(raw)
  const { apiGroup, resource, subresource, namespace, name } = objectRef
  const entry = { verb, group: apiGroup, resource, subresource, namespace, name, user: user.username }
  const allowed = annotations['authorization.k8s.io/decision'] === 'allow'
  const allowedBy = allowed ? (annotations['authorization.k8s.io/reason'] ?? '') : ''
  const { user: whom = '', resourceAttributes } = requestObject?.spec ?? {}
  const question = resourceAttributes && { ...resourceAttributes, user: whom }
  return { ...entry, code: responseStatus.code, allowedBy, ...(question ? { question } : {}) }
}
