/** Whether an event may be published over REST, with the places in the request that are wrong. */
import type { EventType } from '../apis/event-type.ts'
import { parseJson } from '../lib/json.ts'
import type { SchemaProblem, SchemaValidator } from '../lib/schema-validator.ts'
import { refuseEvent } from '../webhooks/events/event-check.ts'
import { RefusedError, type RefusedPlace } from './http/refused-error.ts'
import type { Publication } from './publishing.ts'

export type PublicationRules = {
  catalogue: { get(name: string): EventType | undefined }
  validator: SchemaValidator
}

/** @throws RefusedError invalid */
export function checkPublication(rules: PublicationRules, { type, dataText }: Publication): void {
  const entry = rules.catalogue.get(type)
  const refusal = refuseEvent({ name: type, known: entry !== undefined }, dataText)
  if (refusal) throw invalid([{ pointer: `/${refusal.part}`, message: refusal.words }])
  const schema = entry?.spec.schema
  if (!schema) return
  const problems = problemsOf(rules.validator, { type, schema }, parse(dataText))
  if (problems.length > 0) throw invalid(problems)
}

function parse(dataText: string): unknown {
  try {
    return parseJson(dataText)
  } catch {
    throw invalid([{ pointer: '/data', message: 'is not JSON' }])
  }
}

function problemsOf(
  validator: SchemaValidator,
  { type, schema }: { type: string; schema: Record<string, unknown> },
  data: unknown,
): RefusedPlace[] {
  let problems: SchemaProblem[]
  try {
    problems = validator.validate(schema, data)
  } catch {
    return [
      { pointer: '/type', message: `the schema of ${type} cannot be used; whoever runs Davit can mend it` },
    ]
  }
  return problems.map(({ pointer, message }) => ({ pointer: `/data${pointer}`, message }))
}

function invalid(places: readonly RefusedPlace[]): RefusedError {
  return new RefusedError('invalid', { places })
}
