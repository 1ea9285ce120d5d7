import type { KindDefinition } from '../../../src/apis/meta.ts'

/** A spec that the API server accepts or rejects. */
export type SpecSample = {
  given: string
  kind: KindDefinition
  name: string
  spec: unknown
  /** What the answer must say: the field, and what is allowed there. Absent: it is taken. */
  refusal?: string[]
  /** A rule that only the API server has: names, unknown fields, what it drops before it looks. */
  serverOnly?: true
}

export type Change = {
  name?: string
  /** Fields that differ from the good spec; `undefined` leaves one out. */
  spec?: Record<string, unknown>
  refusal?: string[]
  serverOnly?: true
}

export type Good = { name: string; spec: Record<string, unknown> }

/** Samples of one kind, each a change of the good one. */
export function samplesOf(kind: KindDefinition, good: Good, changes: [string, Change][]): SpecSample[] {
  return changes.map(([given, { name = good.name, spec, refusal, serverOnly }]) => ({
    given,
    kind,
    name,
    spec: { ...good.spec, ...spec },
    ...(refusal ? { refusal } : {}),
    ...(serverOnly ? { serverOnly } : {}),
  }))
}

export const EMOJI = '\u{1f600}'
export const UID = '4ea74ba9-69e4-4cd5-b67c-f9fe9723e01a'
/** The 26 characters of an id. */
export const ID = '0123456789abcdefghjkmnpqrs'

export const NAME_ALLOWED = [
  'metadata.name',
  'must be a DNS label: at most 63 lowercase letters, digits and dashes, without dots',
]
export const TYPE_ALLOWED = 'an event type such as environment.started'
