import { Pool } from 'undici'
import { inject } from 'vitest'
import { API_VERSION, GROUP, type KindDefinition, VERSION } from '../../src/apis/meta.ts'
import { testNamespace } from '../support/control-plane.ts'

export type Answer = { status: number; body: Record<string, unknown> }

export type Call = {
  method: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  body?: unknown
  contentType?: string
  accept?: string
}

export type ClusterApi = { call(call: Call): Promise<Answer>; close(): Promise<void> }

/** The bare API as an administrator: what Davit's own adapter would hide is what these tests look at. */
export function connect(): ClusterApi {
  const { server, caPem, certPem, keyPem } = inject('adminAccess')
  const pool = new Pool(server, { connections: 4, connect: { ca: caPem, cert: certPem, key: keyPem } })
  return { call: (call) => request(pool, call), close: () => pool.close() }
}

async function request(pool: Pool, call: Call): Promise<Answer> {
  const { contentType = 'application/json', accept = 'application/json' } = call
  const { statusCode, body } = await pool.request({
    method: call.method,
    path: call.path,
    headers: { accept, ...(call.body === undefined ? {} : { 'content-type': contentType }) },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  })
  return { status: statusCode, body: (await body.json()) as Record<string, unknown> }
}

export function pathOf(kind: KindDefinition, namespace: string, name?: string): string {
  const place = kind.scope === 'Namespaced' ? `/namespaces/${namespace}` : ''
  return `/apis/${GROUP}/${VERSION}${place}/${kind.plural}${name === undefined ? '' : `/${name}`}`
}

export function objectOf(kind: KindDefinition, name: string, spec: unknown) {
  return { apiVersion: API_VERSION, kind: kind.kind, metadata: { name }, spec }
}

const MERGE_PATCH = 'application/merge-patch+json'

export type NamespaceApi = ClusterApi & {
  name: string
  /** @throws Error when the API server does not take it */
  create(kind: KindDefinition, name: string, spec: unknown, more?: object): Promise<Answer>
  /** A merge patch. */
  patch(kind: KindDefinition, name: string, body: object, subresource?: 'status'): Promise<Answer>
}

/** A namespace of its own for a test file. @param topic part of its name */
export async function openNamespace(topic: string): Promise<NamespaceApi> {
  const api = connect()
  const namespace = await testNamespace(topic)
  return {
    ...api,
    name: namespace,
    async create(kind, name, spec, more = {}) {
      const object = { ...objectOf(kind, name, spec), ...more }
      const answer = await api.call({ method: 'POST', path: pathOf(kind, namespace), body: object })
      if (answer.status !== 201) throw new Error(`${kind.kind} ${name}: ${answer.body.message}`)
      return answer
    },
    patch(kind, name, change, subresource) {
      const path = pathOf(kind, namespace, name) + (subresource ? `/${subresource}` : '')
      return api.call({ method: 'PATCH', path, body: change, contentType: MERGE_PATCH })
    },
  }
}
