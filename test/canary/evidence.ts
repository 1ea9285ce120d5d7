/** Everything that a run has left somewhere, as bytes. */
import { readdir, readFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { configMaps } from '../../src/apis/core-kinds.ts'
import type { ResourceType } from '../../src/apis/meta.ts'
import type { ResourceReader } from '../../src/kube/client.ts'
import type { Scene } from './scene.ts'
import type { Way } from './secret-book.ts'

/** `may`: secrets that came this way may be there. */
export type Evidence = { place: string; bytes: Uint8Array; may?: Way }

export const PLACES = [
  'keys of etcd',
  'files of etcd',
  'files of etcd after compaction',
  'audit log',
  'log of the API server',
  'log of the controller',
  'log of the REST server',
  'metrics',
  'Events',
  'ConfigMaps',
  'what AWS received',
  'trail of AWS',
  'answers of REST',
  'files of the processes',
] as const
export type Place = (typeof PLACES)[number]

const EVENTS: ResourceType = { group: '', version: 'v1', plural: 'events', namespaced: true }
const HANDOVER_KEY = /^\/registry\/secrets\/[^/]+\/handover-/

/** In pieces that fit into memory. */
export async function* evidenceOf(scene: Scene): AsyncGenerator<Evidence & { place: Place }> {
  const { davit, aws, roles, answers, paths } = scene
  for (const [key, value] of await keysOf(davit.controlPlane.etcdUrl)) {
    // The Secret of an owner who hands a value over, and has not been able to, is the owner's own.
    const own = HANDOVER_KEY.test(key.toString('latin1'))
    yield { place: 'keys of etcd', bytes: Buffer.concat([key, value]), ...(own ? { may: 'kubectl' } : {}) }
  }
  yield* filesIn('files of etcd', paths.data, 'kubectl')
  await davit.controlPlane.compactEtcd()
  yield* filesIn('files of etcd after compaction', paths.data, 'kubectl')
  // It begins a new file when one is full.
  yield* filesIn('audit log', dirname(paths.audit))
  yield* fileAt('log of the API server', paths.servers)
  yield* fileAt('log of the controller', paths.controllerLog)
  yield* fileAt('log of the REST server', roles.serverLog)
  yield { place: 'metrics', bytes: Buffer.from(roles.metrics.join('\n')) }
  yield* objectsOf('Events', davit.api, EVENTS)
  yield* objectsOf('ConfigMaps', davit.api, configMaps)
  for (const bytes of aws.emulator.received.all()) yield { place: 'what AWS received', bytes }
  yield { place: 'trail of AWS', bytes: Buffer.from(JSON.stringify(aws.emulator.trail.entries())) }
  yield { place: 'answers of REST', bytes: Buffer.from(answers.join('\n')) }
  yield* filesIn('files of the processes', paths.home)
}

/** All that etcd holds at this moment. */
async function keysOf(etcdUrl: string): Promise<[Buffer, Buffer][]> {
  const everything = Buffer.from('\0').toString('base64')
  const body = JSON.stringify({ key: everything, range_end: everything })
  const answer = await fetch(`${etcdUrl}/v3/kv/range`, { method: 'POST', body })
  const { kvs = [] } = (await answer.json()) as { kvs?: { key: string; value?: string }[] }
  return kvs.map(({ key, value = '' }) => [Buffer.from(key, 'base64'), Buffer.from(value, 'base64')])
}

async function* filesIn<P extends Place>(place: P, folder: string, may?: Way) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true })
  for (const entry of entries) {
    if (!entry.isFile()) continue
    const bytes = await readFile(join(entry.parentPath, entry.name))
    yield { place, bytes, ...(may === undefined ? {} : { may }) }
  }
}

async function* fileAt<P extends Place>(place: P, path: string) {
  yield { place, bytes: await readFile(path) }
}

async function* objectsOf<P extends Place>(place: P, api: ResourceReader, type: ResourceType) {
  const { items } = await api.list(type, { limit: 100_000 })
  for (const item of items) yield { place, bytes: Buffer.from(JSON.stringify(item)) }
}
