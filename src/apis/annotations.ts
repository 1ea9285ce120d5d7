/** Actions that are requested by annotation, and annotations that tell who else manages an object. */
import { createHash } from 'node:crypto'
import { fieldOf, tryParseJson } from '../lib/json.ts'
import { listed, sanitizeText } from '../lib/text.ts'
import { MESSAGE_ID } from './ids.ts'

/** A request by annotation (`davit.dev/...-requested-at`): a time, acted on once per value. */

export type Request =
  | { kind: 'none' }
  /** Handled or found invalid before, or older than the object: it came with a copy or from Git. */
  | { kind: 'old'; value: string }
  | { kind: 'new'; value: string; at: number }
  | { kind: 'invalid'; value: string; message: string }

const RFC3339 = /^\d{4}-\d{2}-\d{2}[Tt ]\d{2}:\d{2}:\d{2}(\.\d{1,9})?([Zz]|[+-]\d{2}:\d{2})$/
/** Characters that the status can hold. */
const MAX_VALUE = 256

/** @param handled the value that was acted on last @param createdAt of the object, milliseconds since 1970 */
export function readRequest(
  value: string | undefined,
  handled: string | undefined,
  createdAt: number,
): Request {
  return requestAt(value, value, { handled, createdAt })
}

const EXPIRE_OLD = ';expire-old'

/** A request whose time `;expire-old` may follow. Parameters as for `readRequest`. */
export function readRotateRequest(
  value: string | undefined,
  handled: string | undefined,
  createdAt: number,
): { request: Request; expireOld: boolean } {
  const expireOld = value?.endsWith(EXPIRE_OLD) === true
  const time = expireOld ? value.slice(0, -EXPIRE_OLD.length) : value
  const request = requestAt(value, time, {
    handled,
    createdAt,
    form: `, optionally followed by ${EXPIRE_OLD}`,
  })
  return { request, expireOld }
}

/** @param time the part of the value that is the time @param form what may follow the time, for people */
function requestAt(
  value: string | undefined,
  time: string | undefined,
  { handled, createdAt, form = '' }: { handled: string | undefined; createdAt: number; form?: string },
): Request {
  if (value === undefined || value === '') return { kind: 'none' }
  const kept = value.length > MAX_VALUE ? sanitizeText(value, MAX_VALUE) : value
  if (kept === handled) return { kind: 'old', value: kept }
  const isTime = time !== undefined && RFC3339.test(time) && value.length <= MAX_VALUE
  const at = isTime ? Date.parse(time) : Number.NaN
  if (Number.isNaN(at)) {
    const message = `"${sanitizeText(value, 64)}" is not a valid time. Use a time such as 2026-01-31T12:00:00Z${form}.`
    return { kind: 'invalid', value: kept, message }
  }
  // creationTimestamp has whole seconds: a request from the object's first second is not older than it.
  if (at < createdAt - 1000) return { kind: 'old', value }
  return { kind: 'new', value, at }
}

/** Redeliveries started at once; the rest of the list follows. */
export const MAX_REDELIVERIES = 100
/** Characters of a list that the status can hold. */
const MAX_LIST = 8192

export type RedeliverItem = { deliveryId: string; at: number; raw: string }
export type RedeliverRequest = {
  items: RedeliverItem[]
  /** Problems in full sentences, for people. */
  invalid: string[]
  /** What to record as handled after the items; undefined if there is no request. */
  handled: string | undefined
}

/**
 * The items of `msg_...@<time>[,...]` that were not handled yet, at most 100. @param handled as recorded last @param createdAt of the
 * object, milliseconds since 1970
 */
export function readRedeliverRequest(
  value: string | undefined,
  handled: string | undefined,
  createdAt: number,
): RedeliverRequest {
  if (!value) return { items: [], invalid: [], handled: undefined }
  const done = new Set(partsOf(handled ?? ''))
  if (value.length > MAX_LIST) return refusedList(value, done)
  const parts = partsOf(value)
  const taken = parts.filter((part) => !done.has(part)).slice(0, MAX_REDELIVERIES)
  const items: RedeliverItem[] = []
  const invalid: string[] = []
  for (const raw of taken) {
    const [, deliveryId = '', time = ''] = /^([^@]*)@(.*)$/s.exec(raw) ?? []
    const when = readRequest(time, undefined, createdAt)
    if (MESSAGE_ID.test(deliveryId) && when.kind === 'new') items.push({ deliveryId, at: when.at, raw })
    else if (when.kind !== 'old')
      invalid.push(`"${sanitizeText(raw, 64)}" does not have the form msg_...@<time>.`)
  }
  const known = new Set([...done, ...taken])
  const rest = parts.some((part) => !known.has(part))
  return { items, invalid, handled: rest ? parts.filter((part) => known.has(part)).join(',') : value }
}

/** What to record as handled if some of the items wait for another pass; undefined if nothing new was handled. */
export function handledExcept(handled: string, waiting: readonly RedeliverItem[]): string | undefined {
  const left = new Set(waiting.map(({ raw }) => raw))
  const parts = partsOf(handled).filter((part) => !left.has(part))
  return parts.length === 0 ? undefined : parts.join(',')
}

const REFUSED = 'refused:'

/** A truncated record would make Davit repeat the rest of the list, so a list that is too long is refused as a whole, once. */
function refusedList(value: string, done: ReadonlySet<string>): RedeliverRequest {
  const mark = REFUSED + createHash('sha256').update(value).digest('hex').slice(0, 16)
  const kept = [...done].filter((part) => !part.startsWith(REFUSED)).join(',')
  const both = kept === '' ? mark : `${kept},${mark}`
  const invalid = `The list must have at most ${MAX_LIST} characters, but it has ${value.length}.`
  return {
    items: [],
    invalid: done.has(mark) ? [] : [invalid],
    handled: both.length <= MAX_LIST ? both : mark,
  }
}

function partsOf(list: string): string[] {
  const parts = list.split(',').map((part) => part.trim())
  return [...new Set(parts)].filter((part) => part !== '')
}

const LAST_APPLIED = 'kubectl.kubernetes.io/last-applied-configuration'
const HELM_RELEASE = 'meta.helm.sh/release-name'
const ARGO_TRACKING = 'argocd.argoproj.io/tracking-id'
const ARGO_INSTANCE = 'argocd.argoproj.io/instance'

/** A tool that manages the spec of an object. `fields`: those of the spec that it sets; undefined: not known. */
export type SpecManager = { name: string; fields: ReadonlySet<string> | undefined }

type Metadata = Readonly<Record<string, unknown>>

/**
 * What manages the spec of an object (Git, Helm, `kubectl apply`): its next apply would undo a write by REST. Empty if REST may change
 * it; one `kubectl edit` makes no manager (interface S5). @param metadata as the API server sent it
 */
export function specManagersOf(metadata: Metadata): SpecManager[] {
  const appliers = new Map<string, Set<string> | undefined>()
  for (const { manager, operation, fields } of writesOf(metadata.managedFields)) {
    if (operation !== 'Apply' || !('f:spec' in fields)) continue
    const set = fieldsIn(fields['f:spec'])
    const held = appliers.get(manager)
    appliers.set(
      manager,
      appliers.has(manager) && (!held || !set) ? undefined : set?.union(held ?? new Set()),
    )
  }
  const managers = [...appliers].map(([name, fields]) => ({ name, fields }))
  const marked = markedManager(metadata)
  // The same tool may leave its mark and apply on the server.
  const isKnown = marked && managers.some(({ name }) => marked.pattern.test(name))
  return marked && !isKnown ? [...managers, { name: marked.name, fields: marked.fields }] : managers
}

/** The managers that set the field. If none is known to, those whose fields are unknown; if there are none, all. @param field of the spec */
export function managersOfField(managers: readonly SpecManager[], field: string): string[] {
  const owners = managers.filter(({ fields }) => fields?.has(field))
  const unknown = managers.filter(({ fields }) => fields === undefined)
  const [found = []] = [owners, unknown, managers].filter(({ length }) => length > 0)
  return found.map(({ name }) => name)
}

/** Names of all that manage the spec, for people; undefined if nothing does. */
export function managedBy(metadata: Metadata): string | undefined {
  const names = specManagersOf(metadata).map(({ name }) => name)
  return names.length === 0 ? undefined : listed(names)
}

/** The field manager that last wrote a part of an object, such as `data`. @param managedFields as the API server sent it */
export function lastWriterOf(managedFields: unknown, part: string): string | undefined {
  const writes = writesOf(managedFields).filter(({ fields }) => `f:${part}` in fields)
  return writes.sort((a, b) => (a.time < b.time ? -1 : 1)).at(-1)?.manager
}

/** A tool that marks its objects by label or annotation. `pattern`: its names as a field manager. */
type MarkedManager = SpecManager & { pattern: RegExp }

/** Several of them may mark one object, as Argo CD does with the output of Helm: the first one counts. */
function markedManager(metadata: Metadata): MarkedManager | undefined {
  const annotations = isRecord(metadata.annotations) ? metadata.annotations : {}
  const labels = isRecord(metadata.labels) ? metadata.labels : {}
  const lastApplied = lastAppliedFields(annotations[LAST_APPLIED])
  const toolOf = (name: string, pattern: RegExp): MarkedManager => {
    const written = writesOf(metadata.managedFields).filter(({ manager }) => pattern.test(manager))
    const sets = written.flatMap(({ fields }) => fieldsIn(fields['f:spec']) ?? [])
    const all = sets.length === 0 ? undefined : new Set(sets.flatMap((set) => [...set]))
    return { name, pattern, fields: lastApplied ?? all }
  }
  if (HELM_RELEASE in annotations || labels['app.kubernetes.io/managed-by'] === 'Helm')
    return toolOf('Helm', /^helm/i)
  if (ARGO_TRACKING in annotations || ARGO_INSTANCE in labels) return toolOf('Argo CD', /^argocd/i)
  return LAST_APPLIED in annotations ? toolOf('kubectl apply', /^kubectl$/) : undefined
}

/** The fields of the spec that `kubectl apply` set last. */
function lastAppliedFields(annotation: unknown): ReadonlySet<string> | undefined {
  const applied = typeof annotation === 'string' ? tryParseJson(annotation) : undefined
  const spec = fieldOf(applied, 'spec')
  return isRecord(spec) ? new Set(Object.keys(spec)) : undefined
}

type FieldWrite = { manager: string; operation: string; time: string; fields: Record<string, unknown> }

/** What is known of who wrote which fields, but for those of a subresource. */
function writesOf(managedFields: unknown): FieldWrite[] {
  if (!Array.isArray(managedFields)) return []
  return (managedFields as readonly unknown[]).flatMap((entry) => {
    if (!isRecord(entry) || entry.subresource || !isRecord(entry.fieldsV1)) return []
    const manager = sanitizeText(String(entry.manager || 'an unnamed field manager'), MAX_MANAGER)
    const { operation, time, fieldsV1: fields } = entry
    return [{ manager, operation: String(operation), time: String(time ?? ''), fields }]
  })
}

/** API servers allow as many characters. */
const MAX_MANAGER = 128

/** The names in a part of FieldsV1; undefined if it is written as a whole. */
function fieldsIn(part: unknown): Set<string> | undefined {
  const names = isRecord(part) ? Object.keys(part).filter((key) => key.startsWith('f:')) : []
  return names.length === 0 ? undefined : new Set(names.map((key) => key.slice(2)))
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null
}
