/** The OpenAPI 3.1 document of the routes. Everything in it comes from their declarations. */
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import { problem, type Refusal, refusalsOf } from './openapi-problems.ts'
import { IDEMPOTENCY_KEY, IF_MATCH } from './request-headers.ts'
import type { Route } from './route.ts'

type Document = ReturnType<typeof createDocument>

const DESCRIPTION = `Signed webhooks for organizations: at least once, retried, logged, replayable. And credentials for private
registries, whose secrets are in the organization's own cloud account and nowhere else.

Send the API key alone as the value of \`Authorization\`. A key is a Kubernetes ServiceAccount token for the audience
\`davit\`: \`kubectl create token NAME --namespace ORGANIZATION --audience davit\`.

Every error is an \`application/problem+json\` with a stable \`code\`.`

const organization = z.string().meta({
  description: 'The organization, which is a namespace of the cluster.',
  maxLength: 63,
  pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
  example: 'acme',
})

const idempotencyKey = z.string().regex(IDEMPOTENCY_KEY).optional().meta({
  description:
    'Makes repeating the request harmless: for 24 hours the same key and body give the same answer, without doing it again.',
  maxLength: 255,
  example: 'order-4711',
})

const ifMatch = z.string().regex(IF_MATCH).optional().meta({
  description: 'An ETag: the request is refused with 412 if the object has changed since.',
  example: '"6a2f9f0e-0f0f-4e0c-9d7e-1a2b3c4d5e6f.3"',
})

/** @param version of Davit */
export function openApiDocument(routes: readonly Route[], version: string): Document {
  const shared = new Map<string, Refusal>()
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const route of routes) {
    const path = `/organizations/{orgId}${route.path}`
    paths[path] = { ...paths[path], [route.method]: operationOf(route, shared) }
  }
  const document: ZodOpenApiObject = {
    openapi: '3.1.0',
    info: {
      title: 'Davit',
      version,
      description: DESCRIPTION,
      license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
    },
    servers: [{ url: '/' }],
    security: [{ apiKey: [] }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    components: {
      schemas: { Problem: problem },
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'The key alone, without a word such as Bearer before it.',
        },
      },
    },
  }
  return createDocument(document, { override: ({ jsonSchema, io }) => plain(jsonSchema, io) })
}

function operationOf(route: Route, shared: Map<string, Refusal>): ZodOpenApiOperationObject {
  const headers = {
    ...(route.idempotent ? { 'Idempotency-Key': idempotencyKey } : {}),
    ...(route.conditional ? { 'If-Match': ifMatch } : {}),
  }
  return {
    operationId: route.id,
    tags: [route.tag],
    summary: route.summary,
    ...(route.description === undefined ? {} : { description: route.description }),
    'x-davit-permission': permissionOf(route),
    requestParams: {
      path: z.object({ orgId: organization, ...route.params?.shape }),
      ...(route.query ? { query: route.query } : {}),
      ...(Object.keys(headers).length === 0 ? {} : { header: z.object(headers) }),
    },
    ...(route.body
      ? {
          requestBody: {
            required: !route.bodyOptional,
            content: { 'application/json': { schema: route.body } },
          },
        }
      : {}),
    responses: { ...successOf(route), ...refusalsOf(route, shared) },
  }
}

function permissionOf({ permission }: Route): string {
  const { verb, resource, subresource } = permission
  return `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`
}

function successOf({ success, idempotent }: Route): ZodOpenApiResponsesObject {
  const described = Object.entries({
    'X-Request-Id': 'Names the request in the log.',
    RateLimit: 'What is left of the limits of the key and of the organization.',
    'RateLimit-Policy': 'The limits, in requests a second.',
    ...success.headers,
    ...(idempotent
      ? { 'Idempotency-Replayed': '`true` where the same request had been answered before.' }
      : {}),
  })
  return {
    [success.status]: {
      description: success.description,
      headers: Object.fromEntries(
        described.map(([name, description]) => [name, { description, schema: { type: 'string' as const } }]),
      ),
      ...(success.body ? { content: { 'application/json': { schema: success.body } } } : {}),
    },
  } as ZodOpenApiResponsesObject
}

/**
 * What zod writes and no reader needs: what only the API server of Kubernetes reads, bounds of JavaScript's
 * numbers, and a ban of further members in answers, which would make an addition a breaking change.
 */
function plain(schema: Record<string, unknown>, io: 'input' | 'output'): void {
  for (const key of Object.keys(schema)) if (key.startsWith('x-')) delete schema[key]
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties
  delete schema.propertyNames
  if (schema.type !== 'string') delete schema.pattern
  if (typeof schema.pattern === 'string') {
    // What every reader of patterns knows.
    schema.pattern = schema.pattern.replaceAll('\\p{Cc}\\p{Z}', '\\s\\u0000-\\u001f\\u007f-\\u009f')
  }
}
