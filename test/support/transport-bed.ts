/** Calls of the Kubernetes API to a server with scripted answers. */

import { afterEach, expect } from 'vitest'
import type { CredentialSource, Credentials } from '../../src/kube/auth.ts'
import { ApiError } from '../../src/kube/client.ts'
import {
  type ApiRequest,
  createTransport,
  type Transport,
  type TransportOptions,
} from '../../src/kube/transport.ts'
import { Changes } from './changes.ts'
import { fixedRandom, SkewedClock } from './fake-clock.ts'
import { type Responder, ScriptedApiServer, sendStatus } from './scripted-api-server.ts'

export const LIST: ApiRequest = { verb: 'list', path: '/apis/test.dev/v1/things' }
export const CREATE: ApiRequest = {
  verb: 'create',
  path: '/apis/test.dev/v1/things',
  body: '{"metadata":{}}',
}
const anonymousCredentials: Credentials = { headers: [], tls: {} }
export const anonymous: CredentialSource = { current: () => anonymousCredentials, refused() {} }

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup()
})

/** Runs after the current test, in reverse order. */
export function cleanUp(cleanup: () => Promise<unknown>): void {
  cleanups.push(cleanup)
}

/** A scripted server and a transport to it; `calls` are those counted by the metrics. */
export async function startTransport(options: Partial<TransportOptions> = {}) {
  const server = await new ScriptedApiServer().start()
  cleanUp(() => server.stop().catch(() => undefined))
  const calls: string[] = []
  const counted = new Changes()
  const apiCall = (verb: string, code: string) => {
    calls.push(`${verb} ${code}`)
    counted.notify()
  }
  const transport = connectTransport(server.origin, { metrics: { apiCall }, ...options })
  return { server, transport, calls, counted }
}

export function connectTransport(origin: string, options: Partial<TransportOptions> = {}): Transport {
  const transport = createTransport({
    access: { origin, basePath: '', credentials: anonymous },
    clock: new SkewedClock(),
    random: fixedRandom(0),
    ...options,
  })
  cleanUp(() => transport.close())
  return transport
}

/** The error with which the call was rejected. */
export async function errorOf(call: Promise<unknown>): Promise<ApiError> {
  const error = await call.then(
    () => undefined,
    (reason: unknown) => reason,
  )
  expect(error).toBeInstanceOf(ApiError)
  return error as ApiError
}

export const busy: Responder = (response) =>
  sendStatus(response, 429, 'TooManyRequests', { headers: { 'retry-after': '1' } })
