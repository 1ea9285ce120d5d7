/** The OpenAPI 3.1 document of the routes. Everything in it comes from their declarations. */
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import { PROBLEMS, type ProblemCode } from './problem.ts'
import { IDEMPOTENCY_KEY } from './request-headers.ts'
import type { Route } from './route.ts'

type Document = ReturnType<typeof createDocument>

const DESCRIPTION = `Signed webhooks for organizations: at least once, retried, logged, replayable.

Send the API key alone as the value of \`Authorization\`. A key is a Kubernetes ServiceAccount token for the audience
\`davit\`: \`kubectl create token NAME --namespace ORGANIZATION --audience davit\`.

Every error is an \`application/problem+json\` with a stable \`code\`.`

const EVERY_ROUTE: readonly ProblemCode[] = [
  'bad_request',
  'unauthenticated',
  'forbidden',
  'not_found',
  'method_not_allowed',
  'request_timeout',
  'uri_too_long',
  'invalid',
  'rate_limited',
  'headers_too_large',
  'internal',
  'overloaded',
  'unavailable',
]
const WITH_BODY: readonly ProblemCode[] = ['bad_json', 'body_too_large', 'unsupported_media_type']

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

const ifMatch = z.string().optional().meta({
  description: 'An ETag: the request is refused with 412 if the object has changed since.',
  example: '"6a2f9f0e-0f0f-4e0c-9d7e-1a2b3c4d5e6f.3"',
})

const place = z.object({
  pointer: z.string().meta({ description: 'JSON pointer into the body, or the name of a parameter.' }),
  message: z.string().meta({ description: 'What is allowed there.' }),
})

const problemCodes = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]

const problem = z
  .object({
    type: z.string().meta({ description: '`urn:davit:problem:` and the code.' }),
    title: z.string(),
    status: z.int().meta({ override: { type: 'integer', minimum: 400, maximum: 599 } }),
    code: z.enum(problemCodes).meta({ description: 'Stable; to be branched on.' }),
    detail: z.string().optional().meta({ description: 'What is wrong with this request, for people.' }),
    errors: z.array(place).optional().meta({ description: 'Each place that is wrong.' }),
    requestId: z.string().meta({ description: 'Names the request in the log; also in X-Request-Id.' }),
  })
  .meta({ id: 'Problem', description: 'Why a request was refused (RFC 9457).' })

/** @param version of Davit */
export function openApiDocument(routes: readonly Route[], version: string): Document {
  const paths: Record<string, Record<string, ZodOpenApiOperationObject>> = {}
  for (const route of routes) {
    const path = `/organizations/{orgId}${route.path}`
    paths[path] = { ...paths[path], [route.method]: operationOf(route) }
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
  return createDocument(document, { override: ({ jsonSchema }) => plain(jsonSchema) })
}

function operationOf(route: Route): ZodOpenApiOperationObject {
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
    responses: { ...successOf(route), ...refusalsOf(route) },
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

/** One response for each status, which names the codes that it comes with. */
function refusalsOf(route: Route): ZodOpenApiResponsesObject {
  const codes = new Set([...EVERY_ROUTE, ...(route.body ? WITH_BODY : []), ...(route.problems ?? [])])
  const byStatus = Map.groupBy(codes, (code) => PROBLEMS[code].status)
  const entries = [...byStatus].sort(([a], [b]) => a - b).map(([status, of]) => [status, refusalOf(of)])
  return Object.fromEntries(entries) as ZodOpenApiResponsesObject
}

function refusalOf(codes: readonly ProblemCode[]) {
  const examples = codes.map((code) => {
    const { status, title } = PROBLEMS[code]
    const value = {
      type: `urn:davit:problem:${code}`,
      title,
      status,
      code,
      requestId: 'req_0v5n9a2m7k1c4x8b3d6e',
    }
    return [code, { summary: PROBLEMS[code].description, value }] as const
  })
  return {
    description: codes.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join(' '),
    content: { 'application/problem+json': { schema: problem, examples: Object.fromEntries(examples) } },
  }
}

/** Without what only the API server of Kubernetes reads; and `\p{Cc}\p{Z}` is what every reader of patterns knows as `\s`. */
function plain(schema: Record<string, unknown>): void {
  for (const key of Object.keys(schema)) if (key.startsWith('x-')) delete schema[key]
  if (typeof schema.pattern === 'string') {
    schema.pattern = schema.pattern.replaceAll('\\p{Cc}\\p{Z}', '\\s').replaceAll('\\p{Cc}', '\\s')
  }
}
