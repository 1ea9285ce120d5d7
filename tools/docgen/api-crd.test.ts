import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { type CelRule, type KindDefinition, observedGeneration } from '../../src/apis/meta.ts'
import { customResourceDefinition, kinds, type StructuralSchema } from './crd.ts'

const plain: KindDefinition = {
  kind: 'Box',
  plural: 'boxes',
  singular: 'box',
  shortNames: ['bx'],
  scope: 'Namespaced',
  description: 'A box.',
  spec: z.object({ size: z.boolean().default(false) }),
  rules: [],
  columns: [{ name: 'Size', type: 'boolean', jsonPath: '.spec.size' }],
  selectable: [],
}

function schemaOf(kind: KindDefinition): StructuralSchema {
  const [version] = customResourceDefinition(kind).spec.versions
  if (!version) throw new Error('a definition without a version')
  return version.schema.openAPIV3Schema
}

/** The schema at a JSON path such as `.spec.state`. */
function schemaAt(kind: KindDefinition, jsonPath: string): StructuralSchema | undefined {
  const steps = jsonPath.split('.').slice(1)
  return steps.reduce<StructuralSchema | undefined>((node, step) => node?.properties?.[step], schemaOf(kind))
}

function rulesIn(schema: StructuralSchema): CelRule[] {
  const children = [...Object.values(schema.properties ?? {}), ...(schema.items ? [schema.items] : [])]
  const own = (schema['x-kubernetes-validations'] ?? []) as CelRule[]
  return [...own, ...children.flatMap(rulesIn)]
}

describe('customResourceDefinition', () => {
  test('names the kind, its version and its category', () => {
    expect(customResourceDefinition(plain)).toMatchObject({
      metadata: { name: 'boxes.davit.dev' },
      spec: {
        group: 'davit.dev',
        scope: 'Namespaced',
        names: { kind: 'Box', listKind: 'BoxList', shortNames: ['bx'], categories: ['davit'] },
        versions: [
          { name: 'v1alpha1', served: true, storage: true, additionalPrinterColumns: plain.columns },
        ],
      },
    })
  })

  test('requires a spec and gives its defaults', () => {
    const schema = schemaOf(plain)
    expect(schema.required).toEqual(['spec'])
    expect(schema.properties?.spec?.properties?.size?.default).toBe(false)
    expect(schema.properties?.spec?.required).toBeUndefined()
  })

  test('has neither a status nor its subresource where the kind has none', () => {
    expect(customResourceDefinition(plain).spec.versions[0]).not.toHaveProperty('subresources')
    expect(schemaOf(plain).properties).not.toHaveProperty('status')
  })

  test('shows an observed generation of -1 on an object that nobody has looked at yet', () => {
    const kind = { ...plain, status: z.object({ observedGeneration, phase: z.boolean().optional() }) }
    expect(schemaOf(kind).properties?.status?.default).toEqual({ observedGeneration: -1 })
    expect(customResourceDefinition(kind).spec.versions[0]?.subresources).toEqual({ status: {} })
  })

  test('gives a status without an observed generation no default, so that it costs nothing', () => {
    const kind = { ...plain, status: z.object({ phase: z.boolean().optional() }) }
    expect(schemaOf(kind).properties?.status).not.toHaveProperty('default')
  })

  test.for(kinds)('$kind selects by fields that it has, of types that can be selected', (kind) => {
    expect(kind.selectable.length).toBeLessThanOrEqual(8)
    const types = kind.selectable.map((path) => schemaAt(kind, path)?.type)
    expect(types).toEqual(kind.selectable.map(() => expect.stringMatching(/^(string|integer|boolean)$/)))
  })

  test.for(kinds)('$kind shows columns of fields that it has', (kind) => {
    const plainPaths = kind.columns.filter((column) => /^\.(spec|status)\.[a-zA-Z.]+$/.test(column.jsonPath))
    expect(plainPaths.length).toBeGreaterThan(0)
    expect(plainPaths.filter((column) => !schemaAt(kind, column.jsonPath))).toEqual([])
    // Long texts push what is behind them out of sight.
    const others = kind.columns.filter(({ name }) => name !== 'URL' && name !== 'Error')
    expect(others.at(-1)).toMatchObject({ name: 'Age', type: 'date' })
  })

  test.for(kinds)('$kind has rules that say in words what is allowed', (kind) => {
    const rules = rulesIn(schemaOf(kind))
    expect(rules.length).toBeGreaterThan(0)
    expect(rules.filter(({ message }) => message.length < 15)).toEqual([])
  })

  test('no two kinds share a name', () => {
    const names = kinds.flatMap((kind) => [...new Set([kind.plural, kind.singular, ...kind.shortNames])])
    expect(new Set(names).size).toBe(names.length)
  })
})
