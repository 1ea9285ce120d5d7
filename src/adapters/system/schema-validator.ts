/** JSON Schema 2020-12 by ajv. */
import { Ajv2020, type ErrorObject, type ValidateFunction } from 'ajv/dist/2020.js'
import type { SchemaValidator } from '../../ports/schema-validator.ts'

const MAX_COMPILED = 500
const MAX_PROBLEMS = 10

/** Compiled schemas are kept by identity, so a catalogue entry costs its compilation once. */
export function createSchemaValidator(): SchemaValidator {
  const compiled = new Map<object, ValidateFunction>()
  return {
    validate(schema, data) {
      const held = compiled.get(schema) ?? compile(schema)
      compiled.set(schema, held)
      if (compiled.size > MAX_COMPILED) compiled.delete(compiled.keys().next().value ?? schema)
      if (held(data)) return []
      return (held.errors ?? []).slice(0, MAX_PROBLEMS).map(problemOf)
    },
  }
}

function compile(schema: Record<string, unknown>): ValidateFunction {
  return new Ajv2020({
    allErrors: false,
    strict: false,
    validateFormats: false,
    addUsedSchema: false,
  }).compile(schema)
}

function problemOf({ instancePath, message }: ErrorObject) {
  return { pointer: instancePath, message: message ?? 'does not fit' }
}
