import { beforeEach, expect, test } from 'vitest'
import { MemoryStore } from '../../test/support/memory-store.ts'
import { boxTemplates } from '../apis/box-template.ts'
import { ApiError } from '../kube/client.ts'
import { BoxTemplateService } from './box-templates.ts'

const CREATED = '2026-03-01T12:00:00.000Z'

let store: MemoryStore
let service: BoxTemplateService

beforeEach(() => {
  store = new MemoryStore(() => Date.parse(CREATED))
  service = new BoxTemplateService({ resources: store })
})

async function make(name: string, more: Record<string, unknown> = {}): Promise<void> {
  const services = [
    { name: 'web', kind: 'custom', image: 'ghcr.io/acme/web:1', registryCredentialId: 'rc_ghcr' },
    { name: 'db', kind: 'catalog', image: 'postgres:18' },
  ]
  const spec = { services, instanceRole: { serviceAccountName: 'box' }, platform: 'linux/arm64' }
  const metadata = { namespace: 'acme', name, creationTimestamp: CREATED }
  await store.create(boxTemplates, { metadata, spec, ...more })
}

test('a template that was never baked has its services and no bake', async () => {
  await make('shop')
  expect(await service.read('acme', 'shop')).toEqual({
    name: 'shop',
    services: [
      { name: 'web', kind: 'custom', image: 'ghcr.io/acme/web:1', registryCredentialId: 'rc_ghcr' },
      { name: 'db', kind: 'catalog', image: 'postgres:18' },
    ],
    platform: 'linux/arm64',
    serviceAccountName: 'box',
    conditions: [],
    createdAt: CREATED,
  })
})

test('a failed bake has its failure, and the digests of what was pulled', async () => {
  const failure = { service: 'db', step: 'check', code: 'ca_missing', message: 'none', fix: 'Create it.' }
  const services = [{ name: 'web', image: 'ghcr.io/acme/web:1', digest: `sha256:${'a'.repeat(64)}` }]
  const bake = { state: 'failed', number: 2, job: 'shop-2', attempts: 1, generation: 1, services, failure }
  const condition = { type: 'Ready', status: 'False', reason: 'CaMissing', message: 'none' }
  const conditions = [{ ...condition, observedGeneration: 1, lastTransitionTime: CREATED }]
  await make('shop')
  const status = { observedGeneration: 1, bake, conditions }
  await store.patch(boxTemplates, { namespace: 'acme', name: 'shop' }, { status }, { subresource: 'status' })
  const found = await service.read('acme', 'shop')
  expect(found.bake).toEqual({ state: 'failed', number: 2, failure })
  expect(found.services.map(({ digest }) => digest)).toEqual([services[0]?.digest, undefined])
  expect(found.conditions).toEqual([{ ...condition, lastTransitionTime: CREATED }])
})

test.each(['none', 'Not-A-Name', '..'])('there is no template %s', async (name) => {
  await make('shop')
  await expect(service.read('acme', name)).rejects.toMatchObject({ code: 'not_found' })
})

test('a list has the templates of the organization only, without those that cannot be read', async () => {
  await make('b')
  await make('a')
  await make('odd', { spec: { services: 'of a later version' } })
  await store.create(boxTemplates, { metadata: { namespace: 'globex', name: 'c' }, spec: {} })
  const { boxTemplates: found, next } = await service.list('acme', { limit: 10 })
  expect([found.map(({ name }) => name), next]).toEqual([['a', 'b'], undefined])
})

test('a page that the API server no longer continues is an expired cursor', async () => {
  store.list = () => Promise.reject(new ApiError('Gone', 'expired', { status: 410 }))
  await expect(service.list('acme', { limit: 10, after: 'token' })).rejects.toMatchObject({
    code: 'cursor_expired',
  })
})
