/** The refusals of the routes as the OpenAPI document has them. */
import { z } from 'zod'
import type { ZodOpenApiResponseObject, ZodOpenApiResponsesObject } from 'zod-openapi'
import { PROBLEMS, type ProblemCode } from './problems.ts'
import type { Route } from './route.ts'

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
  pointer: z.string().meta({ description: 'JSON pointer into the body, or the name of a parameter.' }),
  message: z.string().meta({ description: 'What is allowed there.' }),
})

const condition = z.object({
  type: z.string(),
  status: z.enum(['True', 'False', 'Unknown']),
  reason: z.string().meta({ description: 'One word for programs.' }),
  message: z.string().meta({ description: 'Why, and what to do, for people.' }),
})

const problemCodes = Object.keys(PROBLEMS) as [ProblemCode, ...ProblemCode[]]

export const problem = z
  .object({
    type: z.string().meta({ description: '`urn:davit:problem:` and the code.' }),
    title: z.string(),
    status: z.int().meta({ override: { type: 'integer', minimum: 400, maximum: 599 } }),
    code: z.enum(problemCodes).meta({ description: 'Stable; to be branched on.' }),
    detail: z.string().optional().meta({ description: 'What is wrong with this request, for people.' }),
    errors: z.array(place).optional().meta({ description: 'Each place that is wrong.' }),
    condition: condition.optional().meta({ description: 'Of the resource that is why.' }),
    requestId: z.string().meta({ description: 'Names the request in the log; also in X-Request-Id.' }),
  })
  .meta({ id: 'Problem', description: 'Why a request was refused (RFC 9457).' })

/** One response for each status, which names the codes that it comes with. */
export function refusalsOf(route: Route, shared: Map<string, Refusal>): ZodOpenApiResponsesObject {
  const codes = new Set([...EVERY_ROUTE, ...(route.body ? WITH_BODY : []), ...(route.problems ?? [])])
  const byStatus = Map.groupBy(codes, (code) => PROBLEMS[code].status)
  const entries = [...byStatus].map(([status, of]) => [status, sharedRefusal(of, shared)])
  return Object.fromEntries(entries) as ZodOpenApiResponsesObject
}

/** The same object for the same codes: it becomes one component of the document. */
function sharedRefusal(codes: readonly ProblemCode[], shared: Map<string, Refusal>): Refusal {
  const id = codes.join('.')
  const refusal = shared.get(id) ?? refusalOf(codes, id)
  shared.set(id, refusal)
  return refusal
}

export type Refusal = ZodOpenApiResponseObject & { id: string }

function refusalOf(codes: readonly ProblemCode[], id: string): Refusal {
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
