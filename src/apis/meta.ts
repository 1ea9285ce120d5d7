/**
 * What all resources of the group share: names, object metadata, conditions, and the form in which a kind declares itself so that its
 * CustomResourceDefinition can be generated.
 */
import { z } from 'zod'

/** Tolerance between our stamp and the API server's. */
const TOLERANCE_MS = 5 * 60_000

/**
 * Whether an object is a restored copy, which is young and has an old stamp of ours inside: what it asks for was done before. @param
 * writtenAt our stamp @param createdAt the API server's; both milliseconds since 1970
 */
export function isRestored(writtenAt: number, createdAt: number): boolean {
  return createdAt - writtenAt > TOLERANCE_MS
}

export const GROUP = 'davit.dev'
export const VERSION = 'v1alpha1'
export const API_VERSION = `${GROUP}/${VERSION}`
export const CATEGORY = 'davit'
/** Audience of API tokens; a token for the API server, or for any other audience, is none. */
export const KEY_AUDIENCE = 'davit'

/** A namespace with the value "true" is an organization. */
export const ORGANIZATION_LABEL = `${GROUP}/organization`
/** Comma-separated e-mail addresses of an organization's owners, on its namespace. */
export const OWNER_EMAILS_ANNOTATION = `${GROUP}/owner-emails`
/** Shard of the endpoint (0-255), on every delivery. */
export const SHARD_LABEL = `${GROUP}/shard`
/** On a delivery that has succeeded: the log has its state, and the object is for people. */
export const VIEW_LABEL = `${GROUP}/view`
/** On a segment of outcomes in which shards were claimed or released: a reader of the whole log needs these first. */
export const CLAIMS_LABEL = `${GROUP}/claims`
/** Excludes an object from backups: a restored delivery would be sent again. */
export const NO_BACKUP_LABEL = 'velero.io/exclude-from-backup'

/** A DNS label (RFC 1123). Names are checked before they become path segments. */
export const DNS_LABEL = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
/** A DNS subdomain (RFC 1123); `.` and `..` do not match. */
export const DNS_SUBDOMAIN = /^[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*$/

/** Number of Unicode code points, as the API server counts (JavaScript counts UTF-16 units). */
export function codePoints(text: string): number {
  let count = 0
  for (const _ of text) count += 1
  return count
}

/** Keyword for the meaning of a pattern in words, from the schema to the generated rule; dropped from the CRD. */
export const PATTERN_MEANING = 'x-davit-pattern-meaning'
/** Keyword for a pattern that becomes a rule of the parent object; dropped from the CRD. */
export const PATTERN_HIDDEN = 'x-davit-pattern-unsaid'

export type TextLimits = {
  min?: number
  max: number
  /** Anchored, without look-around and `\s`: the API server's RE2 and JavaScript differ there. */
  pattern?: RegExp
  /** What the pattern allows, in words that follow "must be"; for fields that people write. */
  allowed?: string
  /**
   * Keeps the value out of error messages, since it may be a mistyped secret: API servers quote a field whose pattern or rule fails,
   * but never an object. Needs `allowed`.
   */
  patternHidden?: true
  describe: string
}

/** A string of `min` to `max` Unicode code points, in zod and in the generated schema. */
export function text(limits: TextLimits) {
  const { min = 0, max, pattern, allowed, patternHidden } = limits
  const wanted = min > 0 ? `${min} to ${max} characters` : `at most ${max} characters`
  let schema = z.string().refine(
    (value) => {
      // Counts only values near the limit.
      if (isTextOfLength(value, { min, max })) return true
      const count = codePoints(value)
      return count >= min && count <= max
    },
    { error: `must be ${wanted}`, abort: true },
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

/** The API server's `format: date-time`. */
const RFC_3339 =
  /^\d{4}-\d{2}-\d{2}[Tt]([01]\d|2[0-3]):[0-5]\d:[0-5]\d(\.\d+)?([Zz]|[+-]([01]\d|2[0-3]):[0-5]\d)$/

/** What `isInstant` allows, for messages. */
export const INSTANT_ALLOWED = 'must be an ISO 8601 time such as 2026-01-31T12:00:00.000Z'

export function isInstant(value: string): boolean {
  if (value.length > 64 || !RFC_3339.test(value) || Number.isNaN(Date.parse(value))) return false
  // In UTC, its year may have a sign.
  if (!RFC_3339.test(new Date(value).toISOString())) return false
  // JavaScript accepts 30 February as a day in March.
  const day = value.slice(0, 10)
  return new Date(day).toISOString().startsWith(day)
}

/** An instant, ISO 8601 in UTC. */
export function instant(describe: string) {
  return z
    .string()
    .refine(isInstant, INSTANT_ALLOWED)
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

/** The needed metadata of log objects: every replica reads all of them. */
export const logObjectMeta = objectMeta.pick({ name: true, resourceVersion: true, creationTimestamp: true })
export type LogObjectMeta = z.infer<typeof logObjectMeta>

/** A log object as the API server sends it. */
export type RawLogObject = { metadata: unknown; spec?: unknown }

/** Parses metadata in its usual form by hand; undefined if the schema has to decide. */
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

/** Whether its UTF-16 length proves that it has that many characters, of which there are never more. */
export function isTextOfLength(value: unknown, { min, max }: { min: number; max: number }): value is string {
  return typeof value === 'string' && value.length >= 2 * min && value.length <= max
}

export function isEpochMs(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}

/** An object as read; a new one has no status. */
export function objectOf<Spec extends z.ZodType, Status extends z.ZodType>(spec: Spec, status: Status) {
  return z.object({ metadata: objectMeta, spec, status: status.optional() })
}

/** `metadata.generation` of an object. */
export const generation = z.int().min(0)

/** The bounds are those of `metav1.Condition`. */
export const condition = z
  .object({
    type: text({
      min: 1,
      max: 316,
      pattern:
        /^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$/,
      describe: 'type is the type of the condition.',
    }),
    status: z.enum(['True', 'False', 'Unknown']).meta({ description: 'status is True, False or Unknown.' }),
    observedGeneration: generation
      .optional()
      .meta({ description: 'observedGeneration is the generation that the condition applies to.' }),
    lastTransitionTime: instant('lastTransitionTime is when the status last changed.'),
    reason: text({
      min: 1,
      max: 1024,
      pattern: /^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$/,
      describe: 'reason is the cause as one CamelCase word, for programs.',
    }),
    message: text({ max: 32_768, describe: 'message explains the cause and what to do, for people.' }),
  })
  .meta({ description: 'A condition describes one aspect of the observed state.' })
export type Condition = z.infer<typeof condition>

/** Merged by type under server-side apply. */
export const conditions = z
  .array(condition)
  .max(16)
  .meta({
    description: 'conditions describes aspects of the observed state.',
    'x-kubernetes-list-type': 'map',
    'x-kubernetes-list-map-keys': ['type'],
  })

export const observedGeneration = z.int().default(-1).meta({
  description:
    'observedGeneration is the generation that the status reflects. It is -1 until Davit first processes the object.',
})

/** A CEL rule; `message` names the field and what is allowed. */
export type CelRule = { rule: string; message: string; fieldPath?: string }

export type PrinterColumn = {
  name: string
  jsonPath: string
  type: 'string' | 'integer' | 'date' | 'boolean'
  description?: string
  priority?: number
}

/** Declaration of a kind, from which its CRD is generated. zod and the API server enforce the same `spec` and `status`. */
export type KindDefinition = {
  kind: string
  plural: string
  singular: string
  shortNames: string[]
  /** There may be thousands of them, so `kubectl get davit` leaves them out. */
  isNumerous?: boolean
  scope: 'Namespaced' | 'Cluster'
  description: string
  spec: z.ZodType
  status?: z.ZodType
  /** Rules on the whole object (`self.metadata.name`, `self.spec`). */
  rules: CelRule[]
  columns: PrinterColumn[]
  /** JSON paths for field selectors, at most 8. */
  selectable: string[]
}

/** Path of a kind in the API. `group` is empty for the core group. */
export type ResourceType = { group: string; version: string; plural: string; namespaced: boolean }

export function resourceType(kind: KindDefinition): ResourceType {
  return { group: GROUP, version: VERSION, plural: kind.plural, namespaced: kind.scope === 'Namespaced' }
}

/** Names are ids without their prefix and part of signed content: no dots, no upper case. */
export const DNS_LABEL_NAME: CelRule = {
  rule: "self.metadata.name.matches('^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$')",
  message: 'must be a DNS label: at most 63 lowercase letters, digits and dashes, without dots',
  fieldPath: '.metadata.name',
}
