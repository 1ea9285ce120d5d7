/** The policy in config/admission: the delivery log is append-only. */

import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest'
import { deliverySegmentKind } from '../../src/apis/delivery-segment.ts'
import { outcomeSegmentKind } from '../../src/apis/outcome-segment.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { kubectl } from '../support/control-plane.ts'
import { type NamespaceApi, openNamespace, pathOf } from './cluster-api.ts'
import { goodDeliverySegment, goodOutcomeSegment } from './samples/segments.ts'
import { goodDelivery } from './samples/webhook-delivery.ts'

const POLICY = fileURLToPath(new URL('../../config/admission/delivery-log.yaml', import.meta.url))
/** How long the API server may take to apply a new policy. */
const IN_FORCE = { timeout: 20_000, interval: 50 }

const segments = [
  { kind: deliverySegmentKind, spec: goodDeliverySegment.spec },
  { kind: outcomeSegmentKind, spec: goodOutcomeSegment.spec },
]

const relabel = { metadata: { labels: { moved: 'true' } } }

let namespace: NamespaceApi
beforeAll(async () => {
  namespace = await openNamespace('crd-admission')
  await kubectl(['apply', '--server-side', '-f', POLICY])
  await namespace.create(deliverySegmentKind, 'awaits-policy', goodDeliverySegment.spec)
  await vi.waitFor(async () => {
    const path = `${pathOf(deliverySegmentKind, namespace.name, 'awaits-policy')}?dryRun=All`
    const contentType = 'application/merge-patch+json'
    const { status } = await namespace.call({ method: 'PATCH', path, body: relabel, contentType })
    expect(status).toBe(403)
  }, IN_FORCE)
})
afterAll(() => namespace.close())

describe.for(segments)('with the policy, a $kind.kind', ({ kind, spec }) => {
  test('keeps its place: not even a label may change', async () => {
    const made = await namespace.create(kind, 'kept', spec)
    const { status, body } = await namespace.patch(kind, 'kept', relabel)
    expect({ status, message: body.message }).toEqual({
      status: 403,
      message: expect.stringContaining('a segment of the delivery log must not be updated'),
    })
    const kept = await namespace.call({ method: 'GET', path: pathOf(kind, namespace.name, 'kept') })
    expect(kept.body.metadata).toEqual(made.body.metadata)
  })

  test('can be deleted', async () => {
    await namespace.create(kind, 'deleted', spec)
    const path = pathOf(kind, namespace.name, 'deleted')
    expect(await namespace.call({ method: 'DELETE', path })).toMatchObject({ status: 200 })
    expect(await namespace.call({ method: 'GET', path })).toMatchObject({ status: 404 })
  })

  test('can lose what holds its deletion up', async () => {
    await namespace.create(kind, 'held-up', spec)
    const path = pathOf(kind, namespace.name, 'held-up')
    const body = { propagationPolicy: 'Foreground' }
    const deleted = await namespace.call({ method: 'DELETE', path, body })
    expect(deleted.body.metadata).toMatchObject({ finalizers: ['foregroundDeletion'] })
    const released = await namespace.patch(kind, 'held-up', { metadata: { finalizers: null } })
    expect(released).toMatchObject({ status: 200 })
    expect(await namespace.call({ method: 'GET', path })).toMatchObject({ status: 404 })
  })
})

test('the policy leaves deliveries alone', async () => {
  await namespace.create(webhookDeliveryKind, 'delivery', goodDelivery.spec)
  expect(await namespace.patch(webhookDeliveryKind, 'delivery', relabel)).toMatchObject({ status: 200 })
})
