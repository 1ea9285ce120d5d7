import { eventTypes } from '../../api/event-type.ts'
import type { ResourceType } from '../../api/meta.ts'
import { parseJson } from '../../api/parse-json.ts'
import { webhookEvents } from '../../api/webhook-event.ts'

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
