import { readFileSync } from 'node:fs'
import { Router } from 'express'
import { z } from 'zod'
import {
  createDocument,
  type ZodOpenApiObject,
  type ZodOpenApiOperationObject,
  type ZodOpenApiResponseObject,
  type ZodOpenApiResponsesObject,
} from 'zod-openapi'
import { PROBLEMS, Problem, type ProblemCode } from './problems.ts'
import { IDEMPOTENCY_KEY, IF_MATCH } from './request.ts'
import { DESCRIBED_HEADERS, type HttpResponse, reply } from './response.ts'
import { STREAM_TYPE } from './response-stream.ts'
import type { Route } from './route.ts'

/** The OpenAPI 3.1 document, which comes from the declarations of the routes alone, and the page on which it can be tried. */

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

const place = z.object({
  pointer: z
    .string()
    .meta({ description: 'pointer is a JSON pointer into the body, or the name of a parameter.' }),
  message: z.string().meta({ description: 'message says what is allowed.' }),
})

const condition = z.object({
  type: z.string(),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().meta({ description: 'reason is the machine-readable cause, in one word.' }),
  message: z.string().meta({ description: 'message explains the cause and what to do.' }),
})

const problemCodes = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]

const problem = z
  .object({
    type: z.string().meta({ description: 'type is `urn:davit:problem:` followed by the code.' }),
    title: z.string(),
    status: z.int().meta({ override: { type: 'integer', minimum: 400, maximum: 599 } }),
    code: z
      .enum(problemCodes)
      .meta({ description: 'code identifies the problem. It is stable, so clients can branch on it.' }),
    detail: z
      .string()
      .optional()
      .meta({ description: 'detail describes the cause of the problem in this request, and what to do.' }),
    errors: z.array(place).optional().meta({ description: 'errors lists each invalid value.' }),
    condition: condition
      .optional()
      .meta({ description: 'condition is the resource condition that caused the problem.' }),
    requestId: z.string().meta({
      description:
        'requestId identifies the request in the log. The X-Request-Id header contains it as well.',
    }),
  })
  .meta({ id: 'Problem', description: 'A problem document (RFC 9457) that explains why a request failed.' })

/** One response for each status, which names its codes. */
function problemsOf(route: Route, shared: Map<string, ProblemResponse>): ZodOpenApiResponsesObject {
  const codes = new Set([...EVERY_ROUTE, ...(route.body ? WITH_BODY : []), ...(route.problems ?? [])])
  const byStatus = Map.groupBy(codes, (code) => PROBLEMS[code].status)
  const entries = [...byStatus].map(([status, of]) => [status, sharedResponse(of, shared)])
  return Object.fromEntries(entries) as ZodOpenApiResponsesObject
}

/** The same object for the same codes: it becomes one component of the document. */
function sharedResponse(
  codes: readonly ProblemCode[],
  shared: Map<string, ProblemResponse>,
): ProblemResponse {
  const id = codes.join('.')
  const response = shared.get(id) ?? responseOf(codes, id)
  shared.set(id, response)
  return response
}

type ProblemResponse = ZodOpenApiResponseObject & { id: string }

function responseOf(codes: readonly ProblemCode[], id: string): ProblemResponse {
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
    id,
    description: codes.map((code) => `\`${code}\`: ${PROBLEMS[code].title}.`).join(' '),
    content: { 'application/problem+json': { schema: problem, examples: Object.fromEntries(examples) } },
  }
}

type Document = ReturnType<typeof createDocument>

const DESCRIPTION = `The REST API of Davit manages webhooks and registry credentials of organizations. Webhooks are signed, delivered at
least once, retried, logged and replayable. The secrets of registry credentials are stored in the AWS account of the
organization and nowhere else.

Send only the API token as the value of \`Authorization\`. An API token is a Kubernetes ServiceAccount token for the audience
\`davit\`: \`kubectl create token NAME --namespace ORGANIZATION --audience davit\`.

Every error response is an \`application/problem+json\` document with a stable \`code\`.`

const organization = z.string().meta({
  description: 'orgId is the organization, which is a namespace in the cluster.',
  maxLength: 63,
  pattern: '^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$',
  example: 'acme',
})

const idempotencyKey = z.string().regex(IDEMPOTENCY_KEY).optional().meta({
  description:
    'Idempotency-Key makes it safe to repeat the request. For 24 hours, the same key and body return the same response without repeating the operation.',
  maxLength: 255,
  example: 'order-1042',
})

const ifMatch = z.string().regex(IF_MATCH).optional().meta({
  description: 'If-Match is an ETag. If the object has changed since, the request is rejected with 412.',
  example: '"6a2f9f0e-0f0f-4e0c-9d7e-1a2b3c4d5e6f.3"',
})

const lastEventId = z.string().optional().meta({
  description:
    'Last-Event-ID is the `id` of the last message that the client has read. The stream continues after it. If omitted, the stream starts with the next change.',
  example: '48301.1-48216-48200',
})

/** @param version of Davit */
export function openApiDocument(routes: readonly Route[], version: string): Document {
  const shared = new Map<string, ProblemResponse>()
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
    // Relative to this document, so that any prefix of a proxy works.
    servers: [{ url: '.' }],
    security: [{ apiKey: [] }],
    tags: [...new Set(routes.map(({ tag }) => tag))].map((name) => ({ name })),
    paths,
    webhooks: { event: { post: received() } },
    components: {
      schemas: { Problem: problem },
      securitySchemes: {
        apiKey: {
          type: 'apiKey',
          in: 'header',
          name: 'Authorization',
          description: 'The API token, without a prefix such as Bearer.',
        },
      },
    },
  }
  return createDocument(document, { override: ({ jsonSchema, io }) => plain(jsonSchema, io) })
}

function operationOf(route: Route, shared: Map<string, ProblemResponse>): ZodOpenApiOperationObject {
  const headers = {
    ...(route.idempotent ? { 'Idempotency-Key': idempotencyKey } : {}),
    ...(route.conditional ? { 'If-Match': ifMatch } : {}),
    ...(route.resumable ? { 'Last-Event-ID': lastEventId } : {}),
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
    responses: { ...successOf(route), ...problemsOf(route, shared) },
  }
}

const signature = z.string().meta({
  description:
    'webhook-signature contains a signature for each active signing secret, newest first, separated by spaces. Each is `v1,` and the Base64 HMAC-SHA256 of `{webhook-id}.{webhook-timestamp}.{body}`.',
  example: 'v1,TWEyQtlGmHI3xwDaPdwW443MKJPw2eyuJHW6aa7R1X0=',
})

const delivered = z
  .object({
    type: z.string().meta({ description: 'type is the type of the event.', example: 'environment.started' }),
    timestamp: z.string().meta({
      description: 'timestamp is the time of the event. It is the same for all attempts.',
      format: 'date-time',
      example: '2026-01-31T12:00:00.000Z',
    }),
    data: z.unknown().meta({
      description: 'data is the event data, as it was published. The schema of the event type describes it.',
      example: { environmentId: 'env_1' },
    }),
  })
  .meta({ id: 'DeliveredEvent', description: 'The body that receivers get.' })

/** The request that receivers get (interface §5.5, §6). */
function received(): ZodOpenApiOperationObject {
  return {
    operationId: 'receiveEvent',
    tags: ['Deliveries'],
    summary: 'Receive an event',
    description:
      'Davit sends this request to the URL of every endpoint that subscribes to the type of the event. Verify the signature before you use the body. The same event may arrive more than once; webhook-id identifies it.',
    security: [],
    requestParams: {
      header: z.object({
        'webhook-id': z.string().meta({
          description: 'webhook-id is the ID of the event. It is the same for all attempts.',
          example: 'msg_3ywq8x2k1m5n7p9r0s4t6v8w2z',
        }),
        'webhook-timestamp': z.string().meta({
          description: 'webhook-timestamp is the time of this attempt, in seconds since 1970.',
          example: '1769860800',
        }),
        'webhook-signature': signature,
      }),
    },
    requestBody: { required: true, content: { 'application/json': { schema: delivered } } },
    responses: {
      '2XX': { description: 'The delivery succeeds. Respond within 20 seconds.' },
      default: { description: 'The attempt fails. Davit makes up to 8 attempts.' },
    },
  }
}

function permissionOf({ permission }: Route): string {
  const { verb, resource, subresource } = permission
  return `${verb} ${resource}${subresource === undefined ? '' : `/${subresource}`}`
}

function successOf({ success, idempotent }: Route): ZodOpenApiResponsesObject {
  const described = Object.entries({
    ...DESCRIBED_HEADERS,
    ...success.headers,
    ...(idempotent
      ? {
          'Idempotency-Replayed':
            '`true` if Davit has already answered this request and now returns that response again.',
        }
      : {}),
  })
  return {
    [success.status]: {
      description: success.description,
      headers: Object.fromEntries(
        described.map(([name, description]) => [name, { description, schema: { type: 'string' as const } }]),
      ),
      ...(success.body
        ? { content: { [success.isStream ? STREAM_TYPE : 'application/json']: { schema: success.body } } }
        : {}),
    },
  } as ZodOpenApiResponsesObject
}

/**
 * Removes what zod adds and no reader needs: keywords for the API server of Kubernetes, the bounds of JavaScript's numbers, and
 * the ban of further members in responses, which would make every addition a breaking change.
 */
function plain(schema: Record<string, unknown>, io: 'input' | 'output'): void {
  for (const key of Object.keys(schema)) if (key.startsWith('x-')) delete schema[key]
  if (schema.minimum === Number.MIN_SAFE_INTEGER) delete schema.minimum
  if (schema.maximum === Number.MAX_SAFE_INTEGER) delete schema.maximum
  if (io === 'output' && schema.additionalProperties === false) delete schema.additionalProperties
  delete schema.propertyNames
  if (schema.type !== 'string') delete schema.pattern
  if (typeof schema.pattern === 'string') {
    // Character classes that every regex dialect knows.
    schema.pattern = schema.pattern.replaceAll('\\p{Cc}\\p{Z}', '\\s\\u0000-\\u001f\\u007f-\\u009f')
  }
}

/** The page loads everything from here, and sends nothing elsewhere. */
const PAGE_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "img-src 'self' data:",
  "connect-src 'self'",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const PAGE = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Davit</title>
<link rel="icon" type="image/png" href="docs/favicon-32x32.png">
<link rel="stylesheet" href="docs/swagger-ui.css">
</head>
<body>
<div id="page"></div>
<script src="docs/swagger-ui-bundle.js"></script>
<script src="docs/start.js"></script>
</body>
</html>
`

/** A key that is entered is not stored. */
const START = `window.ui = SwaggerUIBundle({
  url: 'openapi.json',
  dom_id: '#page',
  deepLinking: true,
  persistAuthorization: false,
  validatorUrl: null,
  defaultModelsExpandDepth: 0,
  tryItOutEnabled: true,
})
`

/** Resolved as packages, so that they are found wherever they are installed. */
const ASSETS = [
  {
    name: 'swagger-ui.css',
    url: import.meta.resolve('swagger-ui-dist/swagger-ui.css'),
    contentType: 'text/css; charset=utf-8',
  },
  {
    name: 'swagger-ui-bundle.js',
    url: import.meta.resolve('swagger-ui-dist/swagger-ui-bundle.js'),
    contentType: 'text/javascript; charset=utf-8',
  },
  {
    name: 'favicon-32x32.png',
    url: import.meta.resolve('swagger-ui-dist/favicon-32x32.png'),
    contentType: 'image/png',
  },
]

const HEADERS = {
  'content-security-policy': PAGE_POLICY,
  'referrer-policy': 'no-referrer',
  'cache-control': 'no-cache',
}

/** Unlike the pages, they change only with a version of Davit. */
const ASSET_HEADERS = { 'referrer-policy': 'no-referrer', 'cache-control': 'public, max-age=3600' }

/**
 * The pages that need no key: `/openapi.json` and `/docs`. They are held in memory, so that no client can keep a file open and no
 * range or condition can fail.
 */
export function openPages(routes: readonly Route[], version: string): Router {
  const router = Router({ caseSensitive: true, strict: true })
  const page = (path: string, answer: Omit<HttpResponse, 'status'>) =>
    router
      .route(path)
      .get((request, response) => reply(request, response, { status: 200, headers: HEADERS, ...answer }))
      .all(() => {
        throw new Problem('method_not_allowed', { headers: { allow: 'GET, HEAD' } })
      })
  const document = JSON.stringify(openApiDocument(routes, version))
  page('/openapi.json', { contentType: 'application/json', body: document })
  page('/docs', { contentType: 'text/html; charset=utf-8', body: PAGE })
  page('/docs/start.js', { contentType: 'text/javascript; charset=utf-8', body: START })
  for (const { name, url, contentType } of ASSETS) {
    const body = readFileSync(new URL(url))
    page(`/docs/${name}`, { contentType, body, headers: ASSET_HEADERS })
  }
  return router
}
