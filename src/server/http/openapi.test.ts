import { expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { FakeServices } from '../../../test/support/server-services.ts'
import { createSchemaValidator } from '../../lib/json-schema.ts'
import { webhookPayload } from '../../webhooks/log/codec.ts'
import { Cursors } from '../lists.ts'
import { allRoutes } from '../routes.ts'
import { openApiDocument } from './openapi.ts'
import { PROBLEMS } from './problems.ts'

type Json = Record<string, unknown>

const cursors = new Cursors(Buffer.from('k'), new FakeClock())
const routes = allRoutes({ ...new FakeServices([]), cursors })
const document = JSON.parse(JSON.stringify(openApiDocument(routes, '1.2.3'))) as Json & {
  paths: Record<string, Record<string, Json & { responses: Record<string, Json>; parameters?: Json[] }>>
  components: { responses: Record<string, Json>; schemas: Record<string, Json> }
}

/** Everything in the document, with its place. */
function* walk(value: unknown, path = '#'): Generator<[string, Json]> {
  if (typeof value !== 'object' || value === null) return
  yield [path, value as Json]
  for (const [name, inner] of Object.entries(value)) yield* walk(inner, `${path}/${name}`)
}

function resolve(ref: string): unknown {
  return ref
    .slice(2)
    .split('/')
    .reduce<unknown>((at, part) => (at as Json | undefined)?.[part.replaceAll('~1', '/')], document)
}

test('every route is an operation, and every operation a route', () => {
  const operations = Object.values(document.paths).flatMap((path) =>
    Object.values(path).map(({ operationId }) => operationId),
  )
  expect(operations.sort()).toEqual(routes.map(({ id }) => id).sort())
  expect(document.openapi).toBe('3.1.0')
  expect(document.info).toMatchObject({ version: '1.2.3' })
})

test('every reference leads somewhere', () => {
  for (const [path, { $ref }] of walk(document)) {
    if (typeof $ref === 'string') expect([path, resolve($ref)]).toEqual([path, expect.anything()])
  }
})

test('every code of the catalogue is documented where it can come, and nothing else is', () => {
  const named = new Set<string>()
  for (const { description } of Object.values(document.components.responses)) {
    for (const [, code] of String(description).matchAll(/`(\w+)`:/g)) named.add(code ?? '')
  }
  expect([...named].sort()).toEqual(Object.keys(PROBLEMS).sort())
})

test('every parameter of a path is declared, and nothing is that is not in it', () => {
  for (const [path, operations] of Object.entries(document.paths)) {
    const inPath = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    for (const { parameters = [] } of Object.values(operations)) {
      const declared = parameters.filter((one) => one.in === 'path').map(({ name }) => name)
      expect(declared.sort()).toEqual([...inPath].sort())
    }
  }
})

test('schemas are JSON Schema, their patterns compile, and their examples fit', () => {
  const validator = createSchemaValidator()
  const defs = JSON.parse(
    JSON.stringify(document.components.schemas).replaceAll('#/components/schemas/', '#/$defs/'),
  ) as Json
  for (const [path, value] of walk(document)) {
    if (typeof value.pattern === 'string')
      expect(() => new RegExp(value.pattern as string, 'u')).not.toThrow()
    const looksLikeSchema = 'example' in value && ('type' in value || 'anyOf' in value)
    if (!looksLikeSchema || path.includes('/parameters/')) continue
    const schema = {
      ...(JSON.parse(JSON.stringify(value).replaceAll('#/components/schemas/', '#/$defs/')) as Json),
      $defs: defs,
    }
    expect([path, validator.validate(schema, value.example)]).toEqual([path, []])
  }
})

test('what only Kubernetes or zod has use for is not in it', () => {
  const text = JSON.stringify(document)
  expect(text).not.toContain('x-kubernetes')
  expect(text).not.toContain('x-davit-pattern')
  expect(text).not.toContain('9007199254740991')
  expect(text).not.toContain('\\\\p{')
})

test('an answer may gain members, a request may not', () => {
  const { post } = document.paths['/organizations/{orgId}/webhooks'] ?? {}
  expect(JSON.stringify(post?.requestBody)).toContain('"additionalProperties":false')
  expect(JSON.stringify(document.components.schemas)).not.toContain('"additionalProperties":false')
})

test('the request that receivers get is described with the headers that the sender signs with', () => {
  const { post } = (document.webhooks as Json & { event: { post: Json & { parameters: Json[] } } }).event
  expect(post.parameters.map(({ name, in: place, required }) => [name, place, required])).toEqual([
    ['webhook-id', 'header', true],
    ['webhook-timestamp', 'header', true],
    ['webhook-signature', 'header', true],
  ])
  expect(post.security).toEqual([])
  const body = JSON.parse(webhookPayload('environment.started', 0, '{}'))
  const { DeliveredEvent } = document.components.schemas
  expect(createSchemaValidator().validate(DeliveredEvent as Json, body)).toEqual([])
  expect(DeliveredEvent?.required).toEqual(Object.keys(body))
})
