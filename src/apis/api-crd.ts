/** The CustomResourceDefinition of a kind, from the same schemas that Davit itself reads objects with. */

import { type StructuralSchema, structuralSchema } from './crd.ts'
import { CATEGORY, GROUP, type KindDefinition, type PrinterColumn, VERSION } from './meta.ts'

export type CustomResourceDefinition = {
  apiVersion: 'apiextensions.k8s.io/v1'
  kind: 'CustomResourceDefinition'
  metadata: { name: string }
  spec: {
    group: string
    names: {
      kind: string
      listKind: string
      plural: string
      singular: string
      shortNames?: string[]
      categories: string[]
    }
    scope: KindDefinition['scope']
    versions: CustomResourceVersion[]
  }
}

export type CustomResourceVersion = {
  name: string
  served: boolean
  storage: boolean
  additionalPrinterColumns: PrinterColumn[]
  selectableFields?: { jsonPath: string }[]
  subresources?: { status: Record<string, never> }
  schema: { openAPIV3Schema: StructuralSchema }
}

/** @throws NotStructuralError when a schema of the kind cannot be said to an API server */
export function customResourceDefinition(kind: KindDefinition): CustomResourceDefinition {
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: `${kind.plural}.${GROUP}` },
    spec: {
      group: GROUP,
      names: {
        kind: kind.kind,
        listKind: `${kind.kind}List`,
        plural: kind.plural,
        singular: kind.singular,
        ...(kind.shortNames.length > 0 ? { shortNames: kind.shortNames } : {}),
        categories: [CATEGORY],
      },
      scope: kind.scope,
      versions: [versionOf(kind)],
    },
  }
}

function versionOf(kind: KindDefinition): CustomResourceVersion {
  return {
    name: VERSION,
    served: true,
    storage: true,
    additionalPrinterColumns: kind.columns,
    ...(kind.selectable.length > 0
      ? { selectableFields: kind.selectable.map((jsonPath) => ({ jsonPath })) }
      : {}),
    ...(kind.status ? { subresources: { status: {} } } : {}),
    schema: { openAPIV3Schema: objectSchema(kind) },
  }
}

function objectSchema(kind: KindDefinition): StructuralSchema {
  return {
    type: 'object',
    description: kind.description,
    ...(kind.rules.length > 0 ? { 'x-kubernetes-validations': kind.rules } : {}),
    required: ['spec'],
    properties: {
      apiVersion: { type: 'string', description: `${GROUP}/${VERSION}.` },
      kind: { type: 'string', description: `${kind.kind}.` },
      // Named so that rules on the name can report it as their field.
      metadata: { type: 'object', properties: { name: { type: 'string' } } },
      spec: structuralSchema(kind.spec, 'spec'),
      ...(kind.status ? { status: statusSchema(structuralSchema(kind.status, 'status')) } : {}),
    },
  }
}

/**
 * A fresh object shows the defaults of its status. `observedGeneration: -1` keeps whoever waits for it (kstatus,
 * Flux, Helm) from taking an object that nobody has looked at yet for one that is ready.
 */
function statusSchema(status: StructuralSchema): StructuralSchema {
  const defaults = Object.entries(status.properties ?? {}).flatMap(([name, property]) =>
    property.default === undefined ? [] : [[name, property.default] as const],
  )
  return defaults.length === 0 ? status : { ...status, default: Object.fromEntries(defaults) }
}
