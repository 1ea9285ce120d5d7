import { z } from 'zod'

/**
 * A backup that is restored must not send again what was sent: an object made anew from a copy has a young
 * creationTimestamp and an old stamp of ours inside.
 */
const TOLERANCE_MS = 5 * 60_000

/** @param writtenAt our stamp @param createdAt the API server's; both milliseconds since 1970 */
export function isRestored(writtenAt: number, createdAt: number): boolean {
  return createdAt - writtenAt > TOLERANCE_MS
}

/**
 * What every resource of the group shares: names of the group, object metadata, conditions, and the
 * form in which a kind declares itself so that its CustomResourceDefinition can be generated from it.
 */

export const GROUP = 'davit.dev'
export const VERSION = 'v1alpha1'
export const API_VERSION = `${GROUP}/${VERSION}`
export const CATEGORY = 'davit'
/** An API key is a token that was made for this audience; one that is for the API server, or for anybody else, is none. */
export const KEY_AUDIENCE = 'davit'

/** A namespace is an organization when it carries this label with the value "true". */
export const ORGANIZATION_LABEL = `${GROUP}/organization`
/** Comma separated e-mail addresses of an organization's owners, on its namespace. */
export const OWNER_EMAILS_ANNOTATION = `${GROUP}/owner-emails`
/** Shard of the endpoint (0-255), on every delivery. */
export const SHARD_LABEL = `${GROUP}/shard`
/** Objects that a backup must leave out: a restored delivery would be sent again. */
export const NO_BACKUP_LABEL = 'velero.io/exclude-from-backup'

/** A DNS label (RFC 1123). Checked before any name becomes a segment of a path. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** A DNS subdomain (RFC 1123); `.` and `..` do not match. */
export const DNS_SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

/** Number of Unicode code points, which is what the API server counts (JavaScript counts UTF-16 units). */
export function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Keyword that carries a pattern's meaning in words from the schema to the generated rule; no API server sees it. */
export const PATTERN_MEANING = 'x-davit-pattern-meaning'
/** Keyword of a pattern that is only in a rule of the object around it; no API server sees it. */
export const PATTERN_HIDDEN = 'x-davit-pattern-unsaid'

export type TextLimits = {
  min?: number
  max: number
  /** Anchored, without look-around and `\s` (RE2 on the API server, Unicode here: they differ). */
  pattern?: RegExp
  /** What the pattern allows, in words that follow "must be"; for fields that people write. */
  allowed?: string
  /**
   * A refusal must not have the value in it, since somebody may have typed a secret: API servers show what breaks a pattern or a rule
   * of its own, and nothing of an object that breaks one. Needs `allowed`.
   */
  patternHidden?: true
  describe: string
}

/** A string of `min` to `max` Unicode code points, in zod and in the generated schema alike. */
export function text(limits: TextLimits) {
  const { min = 0, max, pattern, allowed, patternHidden } = limits
  const wanted = min > 0 ? `${min} to ${max} characters` : `at most ${max} characters`
  let schema = z.string().refine(
    (value) => {
      // The loop is only for values near the limit.
      if (isTextOfLength(value, { min, max })) return true
      const count = codePoints(value)
      return count >= min && count <= max
    },
    { error: `must have ${wanted}`, abort: true },
  )
  if (pattern) schema = schema.regex(pattern, allowed ? `must be ${allowed}` : `must match ${pattern.source}`)
  return schema.meta({
    description: limits.describe,
    maxLength: max,
    ...(min > 0 ? { minLength: min } : {}),
    ...(pattern && allowed ? { [PATTERN_MEANING]: allowed } : {}),
    ...(pattern && patternHidden ? { [PATTERN_HIDDEN]: true } : {}),
  })
}

/** What the API server takes for `format: date-time`. */
const RFC_3339 =
  /^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/

function isInstant(value: string): boolean {
  if (value.length > 64 || !RFC_3339.test(value) || Number.isNaN(Date.parse(value))) return false
  // JavaScript takes 30 February for a day in March.
  const day = value.slice(0, 10)
  return new Date(day).toISOString().startsWith(day)
}

/** An instant, ISO 8601 in UTC. */
export function instant(describe: string) {
  return z
    .string()
    .refine(isInstant, 'must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z')
    .meta({ description: describe, format: 'date-time', maxLength: 64 })
}

export const objectMeta = z.object({
  name: z.string(),
  namespace: z.string().optional(),
  uid: z.string().default(''),
  resourceVersion: z.string().default(''),
  generation: z.number().optional(),
  creationTimestamp: z.string().optional(),
  deletionTimestamp: z.string().optional(),
  labels: z.record(z.string(), z.string()).optional(),
  annotations: z.record(z.string(), z.string()).optional(),
  finalizers: z.array(z.string()).optional(),
})
export type ObjectMeta = z.infer<typeof objectMeta>

/** What counts of an object of the log: each replica reads all of them, and the rest would cost it more than this. */
export const logObjectMeta = objectMeta.pick({ name: true, resourceVersion: true, creationTimestamp: true })
export type LogObjectMeta = z.infer<typeof logObjectMeta>

/** An object of the log as the API server sends it. */
export type RawLogObject = { metadata: unknown; spec?: unknown }

/** What the schema makes of metadata as every API server sends it; undefined where only the schema can tell. */
export function readLogMeta(metadata: unknown): LogObjectMeta | undefined {
  if (typeof metadata !== 'object' || metadata === null) return undefined
  const { name, resourceVersion, creationTimestamp } = metadata as Record<string, unknown>
  if (
    typeof name !== 'string' ||
    typeof resourceVersion !== 'string' ||
    typeof creationTimestamp !== 'string'
  )
    return undefined
  return { name, resourceVersion, creationTimestamp }
}

/** Whether it is a text of so many characters, as far as its length says that: characters never outnumber UTF-16 units. */
export function isTextOfLength(value: unknown, { min, max }: { min: number; max: number }): value is string {
  return typeof value === 'string' && value.length >= 2 * min && value.length <= max
}

/** Whether it is a time in milliseconds since 1970. */
export function isEpochMs(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** An object as it is read; one that is new has no status. */
export function objectOf<Spec extends z.ZodType, Status extends z.ZodType>(spec: Spec, status: Status) {
  return z.object({ metadata: objectMeta, spec, status: status.optional() })
}

export const condition = z
  .object({
    type: text({ min: 1, max: 64, describe: 'What the condition is about.' }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'True, False or Unknown.' }),
    observedGeneration: z
      .int32()
      .optional()
      .meta({ description: 'The generation that this was decided for.' }),
    lastTransitionTime: instant('When the status last changed.'),
    reason: text({ min: 1, max: 128, describe: 'Why, as one CamelCase word for programs.' }),
    message: text({ max: 2048, describe: 'Why, and what to do, for people.' }),
  })
  .meta({ description: 'One aspect of the observed state.' })
export type Condition = z.infer<typeof condition>

/** Conditions merge by type under server-side apply. */
export const conditions = z
  .array(condition)
  .max(16)
  .meta({
    description: 'Aspects of the observed state.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  })

export const observedGeneration = z
  .int32()
  .default(-1)
  .meta({ description: 'The generation that the status speaks of; -1 before the first look.' })

/** A CEL rule of the API server; `message` names the field and what is allowed. */
export type CelRule = { rule: string; message: string; fieldPath?: string }

export type PrinterColumn = {
  name: string
  jsonPath: string
  type: 'string' | 'integer' | 'date' | 'boolean'
  description?: string
  priority?: number
}

/** How a kind declares itself. `spec` and `status` are the schemas that both zod and the API server enforce. */
export type KindDefinition = {
  kind: string
  plural: string
  singular: string
  shortNames: string[]
  scope: 'Namespaced' | 'Cluster'
  description: string
  spec: z.ZodType
  status?: z.ZodType
  /** Rules on the object as a whole (`self.metadata.name`, `self.spec`). */
  rules: CelRule[]
  columns: PrinterColumn[]
  /** JSON paths that may be used in field selectors, at most 8. */
  selectable: string[]
}

/** Where a kind lives in the API: what an adapter needs to build a path. `group` is empty for the core group. */
export type ResourceType = { group: string; version: string; plural: string; namespaced: boolean }

export function resourceType(kind: KindDefinition): ResourceType {
  return { group: GROUP, version: VERSION, plural: kind.plural, namespaced: kind.scope === 'Namespaced' }
}

/** The name of an object is its id without the prefix, and part of signed content: no dots, no upper case. */
export const DNS_LABEL_NAME: CelRule = {
  rule: "self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",
  message: 'must be a DNS label: at most 63 lower-case letters, digits and dashes, no dots',
  fieldPath: '.metadata.name',
}
