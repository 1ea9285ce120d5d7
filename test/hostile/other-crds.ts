/** Davit's kinds in the form of an older or a newer version. */

import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parse, stringify } from 'yaml'
import { installCrds } from '../../playground/control-plane/api-server.ts'
import type { ControlPlane } from '../../playground/control-plane/control-plane.ts'
import type { CustomResourceDefinition, StructuralSchema } from '../../tools/docgen/crd.ts'
import type { SeededRandom } from '../chaos/seeded-random.ts'

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const RULES = 'x-kubernetes-validations'

export type Version = { name: string; change: (schema: StructuralSchema, path: string) => StructuralSchema }

/** Removes a share of what is optional. @param share of the optional fields of specs and statuses */
export function older(random: SeededRandom, share: number): Version {
  return {
    name: 'older',
    change: (schema, path) => {
      const { [RULES]: _, ...rest } = schema
      if (!isOwn(path) || !rest.properties) return rest
      const needed = new Set([...(rest.required ?? []), ...alternativesOf(rest)])
      const kept = Object.entries(rest.properties).filter(
        ([name]) => needed.has(name) || !random.chance(share),
      )
      return withProperties(rest, Object.fromEntries(kept))
    },
  }
}

/** Every object has a new field with a default, enums are open, and required fields are optional. */
export const NEWER: Version = {
  name: 'newer',
  change: (schema, path) => {
    const { [RULES]: _, enum: values, ...rest } = schema
    if (!isOwn(path) || !rest.properties) return rest
    const tomorrow: StructuralSchema = { type: 'string', default: 'tomorrow' }
    return withProperties(rest, { ...rest.properties, addedTomorrow: tomorrow })
  },
}

export async function installVersion(
  controlPlane: Pick<ControlPlane, 'access'>,
  version: Version,
): Promise<void> {
  const folder = await mkdtemp(join(tmpdir(), 'davit-other-crds-'))
  try {
    for (const file of await readdir(CRDS)) {
      const definition = parse(await readFile(join(CRDS, file), 'utf8')) as CustomResourceDefinition
      await writeFile(join(folder, file), stringify(changed(definition, version)))
    }
    await installCrds(controlPlane, folder)
  } finally {
    await rm(folder, { recursive: true })
  }
}

export async function installShipped(controlPlane: Pick<ControlPlane, 'access'>): Promise<void> {
  await installCrds(controlPlane, CRDS)
}

/** Selectable fields stay, since they need a type. */
function changed({ spec, ...definition }: CustomResourceDefinition, { change }: Version) {
  const versions = spec.versions.map(({ schema, selectableFields = [], ...version }) => {
    const selected = new Set(selectableFields.map(({ jsonPath }) => jsonPath))
    const walked = walk(schema.openAPIV3Schema, '', change)
    const kept = selectableFields.filter(({ jsonPath }) => has(walked, jsonPath.split('.').slice(1)))
    return {
      ...version,
      schema: { openAPIV3Schema: walked },
      ...(selected.size > 0 ? { selectableFields: kept } : {}),
    }
  })
  return { ...definition, spec: { ...spec, versions } }
}

function walk(schema: StructuralSchema, path: string, change: Version['change']): StructuralSchema {
  const own = change(schema, path)
  const properties = Object.entries(own.properties ?? {}).map(
    ([name, property]) => [name, walk(property, `${path}.${name}`, change)] as const,
  )
  return {
    ...own,
    ...(own.properties ? { properties: Object.fromEntries(properties) } : {}),
    ...(own.items ? { items: walk(own.items, `${path}[]`, change) } : {}),
  }
}

/** Fields of which one must be present. */
function alternativesOf({ oneOf }: StructuralSchema): string[] {
  return ((oneOf ?? []) as { required?: string[] }[]).flatMap(({ required }) => required ?? [])
}

/** Whether the path is that of the spec, of the status, or inside one of them. */
function isOwn(path: string): boolean {
  return /^\.(spec|status)/.test(path)
}

/** A default contains only existing fields. */
function withProperties(
  schema: StructuralSchema,
  properties: NonNullable<StructuralSchema['properties']>,
): StructuralSchema {
  const given = schema.default
  if (typeof given !== 'object' || given === null) return { ...schema, properties }
  const known = Object.entries(given).filter(([name]) => name in properties)
  return { ...schema, properties, default: Object.fromEntries(known) as typeof given }
}

function has(schema: StructuralSchema, path: readonly string[]): boolean {
  const [first, ...rest] = path
  if (first === undefined) return true
  const inner = schema.properties?.[first]
  return inner !== undefined && has(inner, rest)
}
