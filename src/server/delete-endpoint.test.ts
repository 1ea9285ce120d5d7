import { beforeEach, describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { ACME, draft, EndpointsBed } from '../../test/support/endpoints-bed.ts'
import { calling } from '../../test/support/faulty-api.ts'
import { DISABLE_ANNOTATION, webhookEndpoint, webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { ApiError } from '../kube/client.ts'

let bed: EndpointsBed
let id: { organization: string; endpointId: string }

beforeEach(async () => {
  bed = new EndpointsBed()
  const { endpoint } = await bed.answer(bed.endpoints.create(ACME, draft(), {}))
  id = { organization: ACME, endpointId: endpoint.endpointId }
  bed.driven = true
})

const remaining = () => bed.store.all(webhookEndpoints).length

/** The controller looks at it, or has before. */
async function say(status: Record<string, unknown>): Promise<void> {
  const [raw] = bed.store.all(webhookEndpoints)
  const ref = { namespace: ACME, name: raw?.metadata.name ?? '' }
  const patched = await bed.store.patch(webhookEndpoints, ref, { status }, { subresource: 'status' })
  bed.directory.apply(webhookEndpoint.parse(patched))
}

async function turns(): Promise<void> {
  for (let turn = 0; turn < 20; turn += 1) await bed.turn()
}

test('an endpoint is deleted when its controller has said that it sends nothing more', async () => {
  const removed = codeOf(bed.endpoints.remove(id, {}))
  await turns()
  const [raw] = bed.store.all(webhookEndpoints)
  const { annotations = {} } = webhookEndpoint.parse(raw).metadata
  const asked = annotations[DISABLE_ANNOTATION]
  expect(asked).toBeDefined()
  await say({ state: 'disabled', lastHandled: { disable: asked } })
  expect(await bed.answer(removed)).toBe('answered')
  expect(remaining()).toBe(0)
})

test('it is deleted all the same where the controller says nothing, and the answer says that', async () => {
  const removed = bed.endpoints.remove(id, {})
  removed.catch(() => undefined)
  await turns()
  await bed.clock.elapse(5000)
  await expect(removed).rejects.toMatchObject({
    code: 'not_acknowledged',
    detail: expect.stringContaining('The endpoint has been deleted, but'),
  })
  expect(remaining()).toBe(0)
  expect(await bed.answer(codeOf(bed.endpoints.remove(id, {})))).toBe('not_found')
})

test.each([
  { what: 'no controller lives', before: () => Object.assign(bed, { driven: false }) },
  { what: 'it is disabled', before: () => say({ state: 'disabled' }) },
])('nobody is waited for where $what', async ({ before }) => {
  await before()
  expect(await bed.answer(codeOf(bed.endpoints.remove(id, {})))).toBe('answered')
  expect(remaining()).toBe(0)
})

test('one that Davit may not change is deleted, and the answer says that it may be sent to', async () => {
  bed.api.fail(calling('patch', webhookEndpoints), { before: new ApiError('Forbidden', 'by a policy') })
  expect(await bed.answer(codeOf(bed.endpoints.remove(id, {})))).toBe('not_acknowledged')
  expect(remaining()).toBe(0)
})

test('one that was disabled and may not be deleted is not said to be as before', async () => {
  bed.api.fail(calling('delete', webhookEndpoints), { before: new ApiError('Forbidden', 'by a policy') })
  const removed = bed.endpoints.remove(id, {})
  removed.catch(() => undefined)
  await turns()
  await say({ state: 'disabled' })
  await bed.clock.elapse(5000)
  await expect(removed).rejects.toMatchObject({
    code: 'overloaded',
    detail: 'The endpoint has been disabled but could not be deleted. Retry the request.',
    retryAfter: 2,
  })
  expect(remaining()).toBe(1)
})

test('one that is another by now is left alone', async () => {
  await expect(bed.endpoints.remove(id, { ifMatch: '"another"' })).rejects.toMatchObject({
    code: 'precondition_failed',
  })
  expect(remaining()).toBe(1)
})

describe('one that another manager has', () => {
  const fields = (manager: string, operation: string) => ({
    managedFields: [{ manager, operation, fieldsV1: { 'f:spec': { 'f:url': {} } } }],
  })

  async function manage(metadata: object): Promise<void> {
    const ref = { namespace: ACME, name: id.endpointId.slice('whe_'.length) }
    await bed.store.patch(webhookEndpoints, ref, { metadata })
  }

  test.each([
    { manager: 'argocd-controller', metadata: fields('argocd-controller', 'Apply') },
    { manager: 'kustomize-controller', metadata: fields('kustomize-controller', 'Apply') },
    { manager: 'Helm', metadata: { annotations: { 'meta.helm.sh/release-name': 'ours' } } },
    { manager: 'Argo CD', metadata: { annotations: { 'argocd.argoproj.io/tracking-id': 'ours' } } },
    {
      manager: 'kubectl apply',
      metadata: { annotations: { 'kubectl.kubernetes.io/last-applied-configuration': '{}' } },
    },
  ])('is not deleted, and is sent to as before: $manager', async ({ manager, metadata }) => {
    await manage(metadata)
    const calls = bed.api.calls.length
    await expect(bed.answer(bed.endpoints.remove(id, {}))).rejects.toMatchObject({
      code: 'managed_elsewhere',
      detail: `The spec is managed by ${manager}, which may recreate the object. Delete it where it is defined instead. A recreated endpoint has a different signing secret. To stop deliveries, disable the endpoint instead.`,
    })
    expect(bed.api.calls.slice(calls).map(({ verb }) => verb)).toEqual(['get'])
    expect(remaining()).toBe(1)
  })

  test('is still rolled, and deleted by those who change it by hand alone', async () => {
    await manage(fields('argocd-controller', 'Apply'))
    bed.driven = false
    expect(await bed.answer(bed.endpoints.roll(id, { expireOld: false }, {}))).toMatchObject({
      secret: expect.any(String),
    })
    await manage(fields('kubectl-edit', 'Update'))
    expect(await bed.answer(codeOf(bed.endpoints.remove(id, {})))).toBe('answered')
  })

  test('is not found or has changed before it is told of its manager', async () => {
    await manage(fields('argocd-controller', 'Apply'))
    expect(await codeOf(bed.endpoints.remove(id, { ifMatch: '"another"' }))).toBe('precondition_failed')
    const other = { ...id, endpointId: 'whe_absent' }
    expect(await codeOf(bed.endpoints.remove(other, {}))).toBe('not_found')
  })

  test('is not deleted either where its spec is invalid', async () => {
    await manage(fields('argocd-controller', 'Apply'))
    const ref = { namespace: ACME, name: id.endpointId.slice('whe_'.length) }
    await bed.store.patch(webhookEndpoints, ref, { spec: { url: null } })
    expect(await codeOf(bed.endpoints.remove(id, {}))).toBe('managed_elsewhere')
  })
})
