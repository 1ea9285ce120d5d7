/**
 * Writes JSON schemas for kubeconform from the OpenAPI documents of an API server: one file per kind, with all references
 * resolved, and without unknown fields.
 */

import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { requestApi } from '../../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../../playground/control-plane/protocol.ts'

export type Schema = { [key: string]: unknown }
type Kind = { group: string; kind: string; version: string }
type Document = { components?: { schemas?: Record<string, Schema> } }

const KINDS = 'x-kubernetes-group-version-kind'

/** For `-schema-location`. */
export const SCHEMA_FILE = '{{.ResourceKind}}{{.KindSuffix}}.json'

/** Writes the schemas of all kinds that an API server serves. @returns their number */
export async function writeApiSchemas(access: AdminAccess, folder: string): Promise<number> {
  const { body } = await requestApi(access, { method: 'GET', path: '/openapi/v3' })
  const { paths } = body as { paths: Record<string, { serverRelativeURL: string }> }
  let written = 0
  for (const { serverRelativeURL } of Object.values(paths)) {
    const answer = await requestApi(access, { method: 'GET', path: serverRelativeURL })
    written += await writeSchemas((answer.body as Document).components?.schemas ?? {}, folder)
  }
  return written
}

/** @returns the number of kinds */
export async function writeSchemas(
  schemas: Readonly<Record<string, Schema>>,
  folder: string,
): Promise<number> {
  let written = 0
  for (const [name, schema] of Object.entries(schemas)) {
    if (name.endsWith('.Scale')) continue
    const files = filesOf(schema)
    if (files.length === 0) continue
    const whole = JSON.stringify(resolved(schema, schemas, []).value)
    await Promise.all(files.map((file) => writeFile(join(folder, file), whole)))
    written += files.length
  }
  return written
}

/** File names of the kinds with this schema; empty for a partial schema. */
function filesOf(schema: Schema): string[] {
  const kinds = (schema[KINDS] ?? []) as Kind[]
  return kinds
    .filter(({ kind }) => !/(Options|Event|List|Status)$/.test(kind))
    .map(({ group, kind, version }) => {
      const [first] = group.split('.')
      return `${[kind.toLowerCase(), ...(first ? [first] : []), version].join('-')}.json`
    })
}

/** Resolves references, except circular ones (the schema of schemas), which accept anything. */
function resolved(
  value: unknown,
  schemas: Readonly<Record<string, Schema>>,
  seen: readonly string[],
): { value: unknown } {
  if (Array.isArray(value)) return { value: value.map((item) => resolved(item, schemas, seen).value) }
  if (typeof value !== 'object' || value === null) return { value }
  const { $ref, ...rest } = value as Schema
  if (typeof $ref === 'string') {
    const name = $ref.split('/').at(-1) ?? ''
    return seen.includes(name) ? { value: {} } : resolved(schemas[name] ?? {}, schemas, [...seen, name])
  }
  const entries = Object.entries(rest).map(([key, item]) => [key, resolved(item, schemas, seen).value])
  const schema = Object.fromEntries(entries) as Schema
  // A field with a default has an allOf with a single reference.
  const { allOf, default: _, ...plain } = schema
  const whole =
    Array.isArray(allOf) && allOf.length === 1 && schema.properties === undefined
      ? { ...(allOf[0] as Schema), ...plain }
      : schema
  const isClosed = whole.properties !== undefined && whole.additionalProperties === undefined
  return {
    value:
      isClosed && whole['x-kubernetes-preserve-unknown-fields'] !== true
        ? { ...whole, additionalProperties: false }
        : whole,
  }
}
