/**
 * A client of the REST API like that of a user: typed by docs/reference/openapi.d.ts, so that it can only send documented requests. Each
 * answer is validated against the document.
 *
 *   const client = await openRestClient(server, key)
 *   const { data } = await client.GET('/organizations/{orgId}/webhooks', { params: { path: { orgId } } })
 */
import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js'
import createClient, { type Client, type Middleware } from 'openapi-fetch'
import type { paths } from '../../docs/reference/openapi.d.ts'

export type RestClient = Client<paths>

type Json = Record<string, unknown>
type Responses = Record<string, { $ref?: string; content?: Record<string, { schema: Json }> }>

export type OpenApiDocument = {
  paths: Record<string, Record<string, { operationId: string; responses: Responses }>>
  webhooks: Record<string, Record<string, { operationId: string }>>
  components: Json
}

/** A client with an API token, based on the document that the server publishes. */
export async function openRestClient({ baseUrl }: { baseUrl: string }, key: string): Promise<RestClient> {
  const answer = await fetch(`${baseUrl}/openapi.json`)
  const client = createClient<paths>({ baseUrl, headers: { Authorization: key } })
  client.use(holdingAgainst((await answer.json()) as OpenApiDocument))
  return client
}

type Answer<T> = { data?: T; error?: unknown; response: Response }

/** The data of a successful answer. @throws Error with the problem if it was rejected */
export function answered<T>({ data, error, response }: Answer<T>): T {
  if (data !== undefined && error === undefined) return data
  throw new Error(`${response.url} answers ${response.status} ${JSON.stringify(error)}`)
}

/** Fails a request whose answer violates the document: by its status, the type of its body, or its shape. */
function holdingAgainst(document: OpenApiDocument): Middleware {
  const ajv = new Ajv2020({ strict: false, validateFormats: false })
  const validators = new Map<string, ValidateFunction>()
  return {
    async onResponse({ request, response, schemaPath }) {
      const { status } = response
      const name = `${request.method} ${schemaPath} answers ${status}`
      const operation = document.paths[schemaPath]?.[request.method.toLowerCase()]
      const declared = resolve(document, operation?.responses[status])
      if (!declared) throw new Error(`${name}, which the document does not have`)
      const text = await response.clone().text()
      const [contentType, media] = Object.entries(declared.content ?? {})[0] ?? []
      if (contentType === undefined || media === undefined) {
        if (text !== '') throw new Error(`${name} with a body, which the document does not have: ${text}`)
        return
      }
      if (response.headers.get('content-type') !== contentType)
        throw new Error(`${name} with ${response.headers.get('content-type')} instead of ${contentType}`)
      const validate =
        validators.get(name) ?? ajv.compile({ ...media.schema, components: document.components })
      validators.set(name, validate)
      if (!validate(JSON.parse(text)))
        throw new Error(`${name} with a body of another shape: ${ajv.errorsText(validate.errors)} in ${text}`)
    },
  }
}

function resolve(document: OpenApiDocument, response: Responses[string] | undefined) {
  if (response?.$ref === undefined) return response
  return response.$ref
    .slice('#/'.length)
    .split('/')
    .reduce<unknown>((at, part) => (at as Json)[part], document) as Responses[string]
}
