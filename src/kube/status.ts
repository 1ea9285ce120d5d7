import type { Condition } from '../apis/meta.ts'
import { sanitizeText } from '../lib/text.ts'

/** Conditions as kstatus, Flux, Argo CD and `kubectl wait` read them, and minimal status patches. */

export type ConditionUpdate = {
  type: string
  status: 'True' | 'False' | 'Unknown'
  reason: string
  message: string
}

/** What a condition says, whichever it is of. */
export type Finding = Omit<ConditionUpdate, 'type'>

/** Why a condition has its status. */
export type Cause = Pick<ConditionUpdate, 'reason' | 'message'>

/** A condition that exists only while it is true, such as `Reconciling` and `Stalled` of kstatus. */
export function whileTrue(type: string, cause: Cause | undefined): ConditionUpdate[] {
  return cause ? [{ type, status: 'True', reason: cause.reason, message: cause.message }] : []
}

/** The updated conditions: `lastTransitionTime` changes only with the status. @param at.now milliseconds since 1970 */
export function mergeConditions(
  before: readonly Condition[] | undefined,
  findings: readonly ConditionUpdate[],
  at: { now: number; generation: number },
): Condition[] {
  return findings.map((finding) => {
    const held = before?.find((condition) => condition.type === finding.type)
    const moved = held?.status !== finding.status
    return {
      ...finding,
      message: sanitizeText(finding.message, 1000),
      observedGeneration: at.generation,
      lastTransitionTime: moved || !held ? new Date(at.now).toISOString() : held.lastTransitionTime,
    }
  })
}

type Fields = Record<string, unknown>

/**
 * The JSON merge patch (RFC 7386) from `previous` to `desired`, or undefined if they are equal. Removed fields
 * become null; arrays are replaced whole. A merge patch cannot store null, so null and undefined in `desired` both
 * mean absent.
 */
export function statusPatch(previous: object | undefined, desired: object): object | undefined {
  const patch = patchOf((previous ?? {}) as Fields, desired as Fields)
  return Object.keys(patch).length === 0 ? undefined : patch
}

function patchOf(previous: Fields, desired: Fields): Fields {
  const changes: [string, unknown][] = []
  for (const [name, want] of Object.entries(desired)) {
    const change = isAbsent(want) ? undefined : changeOf(own(previous, name), want)
    if (change !== undefined) changes.push([name, change])
  }
  for (const [name, have] of Object.entries(previous)) {
    if (!isAbsent(have) && isAbsent(own(desired, name))) changes.push([name, null])
  }
  // Not by assignment, which would set the prototype for a field named __proto__.
  return Object.fromEntries(changes)
}

/** The change to send for one field, or undefined if there is none. */
function changeOf(have: unknown, want: unknown): unknown {
  if (!isFields(want)) return sameJson(have, want) ? undefined : want
  if (!isFields(have)) return patchOf({}, want)
  const inner = patchOf(have, want)
  return Object.keys(inner).length > 0 ? inner : undefined
}

/** Whether two values are the same JSON; the order of fields does not matter. */
export function sameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (Array.isArray(a)) {
    return (
      Array.isArray(b) && a.length === b.length && a.every((element, index) => sameJson(element, b[index]))
    )
  }
  if (!isFields(a) || !isFields(b)) return false
  const names = definedNames(a)
  return (
    names.length === definedNames(b).length &&
    names.every((name) => Object.hasOwn(b, name) && sameJson(a[name], b[name]))
  )
}

function definedNames(fields: Fields): string[] {
  return Object.keys(fields).filter((name) => fields[name] !== undefined)
}

function own(fields: Fields, name: string): unknown {
  return Object.hasOwn(fields, name) ? fields[name] : undefined
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null
}

function isFields(value: unknown): value is Fields {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
