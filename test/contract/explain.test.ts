/** `kubectl explain` tells something of every field, in sentences. */
import { expect, inject, test } from 'vitest'
import { requestApi } from '../../playground/control-plane/api-server.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { kubectl } from '../support/control-plane.ts'

type Schema = { description?: string; type?: string; properties?: Record<string, Schema>; items?: Schema }
type Document = {
  components: { schemas: Record<string, Schema & { 'x-kubernetes-group-version-kind'?: { kind: string }[] }> }
}

/** What the API server adds to every kind, and explains itself. */
const GENERAL = new Set(['apiVersion', 'kind', 'metadata'])
const MOST_CHARACTERS = 260

async function published(): Promise<Map<string, Schema>> {
  const { body } = await requestApi(inject('adminAccess'), {
    method: 'GET',
    path: '/openapi/v3/apis/davit.dev/v1alpha1',
  })
  const schemas = Object.values((body as Document).components.schemas)
  return new Map(
    schemas.flatMap((schema) => {
      const [of] = schema['x-kubernetes-group-version-kind'] ?? []
      return of && !of.kind.endsWith('List') && schema.properties?.spec ? [[of.kind, schema] as const] : []
    }),
  )
}

function fieldsOf(schema: Schema, path: string): [string, string | undefined][] {
  const properties = Object.entries(schema.properties ?? schema.items?.properties ?? {})
  return properties
    .filter(([name]) => path.includes('.') || !GENERAL.has(name))
    .flatMap(([name, field]) => [
      [`${path}.${name}`, field.description] as [string, string | undefined],
      ...fieldsOf(field, `${path}.${name}`),
    ])
}

test('every field of every kind has a description that reads as a sentence', async () => {
  const schemas = await published()
  expect([...schemas.keys()].sort()).toEqual(kinds.map(({ kind }) => kind).sort())
  const fields = [...schemas].flatMap(([kind, schema]) => fieldsOf(schema, kind))
  expect(fields.length).toBeGreaterThan(150)
  const bad = fields.filter(
    ([, words = '']) =>
      !/^[\w'"(/].*[.)]$/s.test(words) || words.length > MOST_CHARACTERS || /\s{2}/.test(words),
  )
  expect(bad).toEqual([])
})

test.each(kinds.map(({ plural, kind, description }) => [plural, kind, description]))(
  'kubectl explains %s with all that is in it',
  async (plural, kind, description) => {
    const said = await kubectl(['explain', plural, '--recursive'])
    expect(said).toContain(`KIND:       ${kind}`)
    const words = (text: string) => text.replaceAll(/\s+/g, ' ').trim()
    expect(words(said)).toContain(words(description).slice(0, 40))
  },
)
