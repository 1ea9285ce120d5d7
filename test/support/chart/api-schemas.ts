/**
 * JSON schemas of kinds, from the OpenAPI documents of an API server, as kubeconform reads them: one file for each kind, with all that it
 * refers to, and no field that the server does not know.
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

/** Of all that an API server serves. @returns how many kinds there are */
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

/** @returns how many kinds there are */
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

/** Of what objects there are of its kinds; none for a part of one. */
function filesOf(schema: Schema): string[] {
  const kinds = (schema[KINDS] ?? []) as Kind[]
  return kinds
    .filter(({ kind }) => !/(Options|Event|List|Status)$/.test(kind))
    .map(({ group, kind, version }) => {
      const [first] = group.split('.')
      return `${[kind.toLowerCase(), ...(first ? [first] : []), version].join('-')}.json`
    })
}

/** With references put in, but where they go round in circles (the schema of schemas), which takes anything. */
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
  // An allOf of one reference is how fields have defaults beside it.
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
