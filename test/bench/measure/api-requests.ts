/** How many requests an API server has answered, by its own count. */

import { requestApi } from '../../../playground/control-plane/api-server.ts'
import type { AdminAccess } from '../../../playground/control-plane/protocol.ts'

/** By `<verb> <resource>[/<subresource>]`, the verb as the API server names it (POST, PATCH, LIST, ...). */
export type RequestCounts = Map<string, number>

const SERIES = /^apiserver_request_total\{(.*)\} (\S+)$/gm
const WRITES = new Set(['POST', 'PUT', 'PATCH', 'APPLY', 'DELETE', 'DELETECOLLECTION'])

/** @throws Error if the API server does not serve its metrics */
export async function readRequestCounts(access: AdminAccess): Promise<RequestCounts> {
  const { status, body } = await requestApi(access, { method: 'GET', path: '/metrics' })
  if (status !== 200 || typeof body !== 'string') throw new Error(`/metrics answers ${status}`)
  return parseRequestCounts(body)
}

export function parseRequestCounts(metrics: string): RequestCounts {
  const counts: RequestCounts = new Map()
  for (const [, labels = '', value] of metrics.matchAll(SERIES)) {
    const label = (name: string) => new RegExp(`(?:^|,)${name}="([^"]*)"`).exec(labels)?.[1] ?? ''
    const subresource = label('subresource')
    const key = `${label('verb')} ${label('resource')}${subresource && `/${subresource}`}`
    counts.set(key, (counts.get(key) ?? 0) + Number(value))
  }
  return counts
}

/** What came between two readings, without what did not move. */
export function requestsBetween(before: RequestCounts, after: RequestCounts): RequestCounts {
  const changed = [...after].map(([key, count]) => [key, count - (before.get(key) ?? 0)] as const)
  return new Map(changed.filter(([, count]) => count > 0))
}

export function writesOf(counts: RequestCounts): RequestCounts {
  return new Map([...counts].filter(([key]) => WRITES.has(key.split(' ', 1)[0] ?? '')))
}

export function sumOf(counts: RequestCounts): number {
  return [...counts.values()].reduce((sum, count) => sum + count, 0)
}
