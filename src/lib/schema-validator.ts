export type SchemaProblem = { pointer: string; message: string }

/** JSON Schema 2020-12. */
export interface SchemaValidator {
  /** Problems of `data` under `schema`, at most 10, none if it fits. @throws Error when the schema itself is no schema */
  validate(schema: Record<string, unknown>, data: unknown): SchemaProblem[]
}
