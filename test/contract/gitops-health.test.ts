/** What Flux, Helm 4 and Argo CD make of every state that Davit writes, by their own code, as docs/guides/gitops.md has it. */

import { readFileSync } from 'node:fs'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { parse } from 'yaml'
import type { Condition, KindDefinition } from '../../src/apis/meta.ts'
import { PARAMETER_FINALIZER } from '../../src/apis/registry-credential.ts'
import { kinds } from '../../tools/docgen/crd.ts'
import { buildHealthReaders, type Health, healthOf } from '../support/gitops/health-readers.ts'
import { SAMPLES, type Sample, statusesOf } from '../support/gitops/written-states.ts'
import { BUILD_LIMIT_MS } from '../support/go-program.ts'
import { type NamespaceApi, openNamespace, pathOf } from './cluster-api.ts'

type Seen = {
  kind: string
  metadata: { generation?: number; deletionTimestamp?: string }
  status?: { observedGeneration?: number; state?: string; conditions?: Condition[] }
}

const PAGE = readFileSync(new URL('../../docs/guides/gitops.md', import.meta.url), 'utf8')

let namespace: NamespaceApi
const seen: Seen[] = []
let health: Health[]

beforeAll(async () => {
  await buildHealthReaders()
  namespace = await openNamespace('gitops-health')
  for (const sample of SAMPLES) seen.push(...(await writtenStates(sample)))
  health = await healthOf(argoCheck(), seen)
}, BUILD_LIMIT_MS)

afterAll(() => namespace?.close())

/** The Lua of the page. */
function argoCheck(): string {
  const [, yaml = ''] = /```yaml\n(apiVersion: v1\nkind: ConfigMap.*?)```/s.exec(PAGE) ?? []
  const { data } = parse(yaml) as { data: Record<string, string> }
  const customizations = parse(data['resource.customizations'] ?? '') as Record<
    string,
    Record<string, string>
  >
  return customizations['davit.dev/*']?.['health.lua'] ?? ''
}

/** Controllers of other tests write the status of every object that no namespace holds, so the states of such a kind are made here. */
function clusterStates({ kind, good }: Sample): Seen[] {
  const generation = 1
  const metadata = { generation, name: good.name }
  const made = { kind: kind.kind, metadata, status: { observedGeneration: -1 } }
  const written = statusesOf(kind, generation).map((status) => ({ ...made, status }))
  const newer = { ...made, metadata: { generation: 2 }, status: { observedGeneration: generation } }
  const deleted = { ...made, metadata: { generation, deletionTimestamp: '2026-01-31T12:00:00Z' } }
  return [made, ...written, newer, deleted]
}

/** Objects of the API server: as made, with each status, with a newer spec, and while something holds them. */
async function writtenStates(sample: Sample): Promise<Seen[]> {
  const { kind, good } = sample
  if (kind.scope === 'Cluster') return clusterStates(sample)
  const path = pathOf(kind, namespace.name, good.name)
  const get = async () => (await namespace.call({ method: 'GET', path })).body as unknown as Seen
  await namespace.call({
    method: 'POST',
    path: pathOf(kind, namespace.name),
    body: {
      apiVersion: 'davit.dev/v1alpha1',
      kind: kind.kind,
      metadata: { name: good.name },
      spec: good.spec,
    },
  })
  const states = [await get()]
  const { generation = 1 } = states[0]?.metadata ?? {}
  for (const status of statusesOf(kind, generation)) {
    // Conditions are replaced, as Davit writes them.
    const { status: code, body } = await namespace.patch(kind, good.name, { status }, 'status')
    expect(code, JSON.stringify(body.message)).toBe(200)
    states.push(await get())
  }
  const change = NEWER[kind.kind]
  if (change) {
    await namespace.patch(kind, good.name, { status: { observedGeneration: generation } }, 'status')
    await namespace.patch(kind, good.name, { spec: change })
    states.push(await get())
  }
  await namespace.patch(kind, good.name, { metadata: { finalizers: [PARAMETER_FINALIZER] } })
  await namespace.call({ method: 'DELETE', path })
  states.push(await get())
  await namespace.patch(kind, good.name, { metadata: { finalizers: [] } })
  return states
}

const NEWER: Readonly<Record<string, object>> = {
  WebhookEndpoint: { description: 'another' },

  RegistryCredential: { label: 'another' },
  SecretsSettings: { kmsKeyId: 'alias/another' },
  BoxTemplate: { services: [{ name: 'other', kind: 'catalog', image: 'postgres:17' }] },
}

/** What a reader of the page looks for. */
function stateOf({ metadata, status = {} }: Seen): [label: string, reason?: string | undefined] {
  if (metadata.deletionTimestamp) return ['being deleted']
  const { observedGeneration, conditions, state } = status
  if (observedGeneration === -1) return ['not observed yet']
  if (observedGeneration !== undefined && observedGeneration < (metadata.generation ?? 0))
    return ['spec newer than `observedGeneration`']
  const of = (type: string) => conditions?.find((condition) => condition.type === type)
  for (const type of ['Reconciling', 'Stalled'])
    if (of(type)?.status === 'True') return [type, of(type)?.reason]
  const ready = of('Ready')
  if (ready) return [`Ready ${ready.status}`, ready.reason]
  return state === undefined ? ['exists'] : ['`status.state`', state]
}

function table(): string[] {
  const rows = new Map<string, { cells: [string, string, string, string]; reasons: Set<string> }>()
  seen.forEach((object, index) => {
    const [label, reason] = stateOf(object)
    const { kstatus, argo } = health[index] as Health
    const cells: [string, string, string, string] = [object.kind, label, kstatus.status, argo.status]
    const row = rows.get(cells.join()) ?? { cells, reasons: new Set() }
    if (reason) row.reasons.add(reason)
    rows.set(cells.join(), row)
  })
  return [...rows.values()].map(({ cells: [kind, label, kstatus, argo], reasons }) => {
    const state = reasons.size > 0 ? `${label}: ${[...reasons].sort().join(', ')}` : label
    return `| ${kind} | ${state} | ${kstatus} | ${argo} |`
  })
}

test('there is a sample of every kind', () => {
  expect(SAMPLES.map(({ kind }) => kind.kind).sort()).toEqual(
    kinds.map(({ kind }: KindDefinition) => kind).sort(),
  )
})

test('the table of the page is what kstatus and the health check of the page say of every state', () => {
  const rows = PAGE.split('\n').filter((line) => /^\| [A-Z]\w+ \| .* \| \w+ \| \w+ \|$/.test(line))
  expect(rows).toEqual(table())
})

test('what has to be mended is failed, with the words of the condition', () => {
  const stalled = seen.flatMap((object, index) => {
    const condition = object.status?.conditions?.find(({ type }) => type === 'Stalled')
    if (condition?.status !== 'True' || stateOf(object)[0] !== 'Stalled') return []
    return [{ condition, health: health[index] as Health }]
  })
  expect(stalled.length).toBeGreaterThan(60)
  for (const { condition, health } of stalled)
    expect(health).toEqual({
      kstatus: { status: 'Failed', message: condition.message },
      argo: { status: 'Degraded', message: condition.message },
    })
})
