import { eventTypes } from '../apis/event-type.ts'
import type { ResourceType } from '../apis/meta.ts'
import { webhookEvents } from '../apis/webhook-event.ts'
import { parseJson } from '../lib/json.ts'

/** @throws SyntaxError */
export type ParseJson = (text: string) => unknown

/**
 * Kinds whose owners choose names of members. Elsewhere only `managedFields` has names with escapes, in each object, and nobody
 * reads those.
 */
const FREE_FORM_KINDS: ReadonlySet<string> = new Set([webhookEvents.plural, eventTypes.plural])

/** Reads the JSON of objects of a type, alone, in lists and in watches. */
export function jsonParserFor({ plural }: ResourceType): ParseJson {
  return FREE_FORM_KINDS.has(plural) ? parseJson : JSON.parse
}
