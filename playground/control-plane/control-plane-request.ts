import { request } from 'node:https'
import type { AdminAccess } from './protocol.ts'

/** `warnings`: what the API server says of a request that it takes. */
export type ApiAnswer = { status: number; body: unknown; warnings?: string }

export type ApiCall = {
  method: string
  path: string
  body?: object
  /** Of the body; absent: JSON. */
  contentType?: string
  /** Absent: as the administrator. */
  token?: string
  /** Media type of the answer; absent: JSON. */
  accept?: string
  timeoutMs?: number
}

const CALL_LIMIT_MS = 15_000

/**
 * One call of the API server. Any status is an answer.
 *
 * @throws Error where none came
 */
export function requestApi(access: AdminAccess, call: ApiCall): Promise<ApiAnswer> {
  const { promise, resolve, reject } = Promise.withResolvers<ApiAnswer>()
  const body = call.body === undefined ? undefined : JSON.stringify(call.body)
  const outgoing = request(
    new URL(call.path, access.server),
    {
      method: call.method,
      ca: access.caPem,
      ...(call.token === undefined && { cert: access.certPem, key: access.keyPem }),
      headers: {
        accept: call.accept ?? 'application/json',
        ...(body && { 'content-type': call.contentType ?? 'application/json' }),
        ...(call.token && { authorization: `Bearer ${call.token}` }),
      },
      signal: AbortSignal.timeout(call.timeoutMs ?? CALL_LIMIT_MS),
    },
    async (response) => {
      try {
        const chunks = await Array.fromAsync(response as AsyncIterable<Buffer>)
        const text = Buffer.concat(chunks).toString()
        const { warning } = response.headers
        resolve({
          status: response.statusCode ?? 0,
          body: parsed(text),
          ...(warning !== undefined && { warnings: warning }),
        })
      } catch (error) {
        reject(error)
      }
    },
  )
  outgoing.on('error', reject)
  outgoing.end(body)
  return promise
}

/** Some errors of the API server are plain text. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
