/** What the API server takes as a status, and what the schemas take. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { KindDefinition } from '../../src/apis/meta.ts'
import { webhookDeliveryKind } from '../../src/apis/webhook-delivery.ts'
import { webhookEndpointKind } from '../../src/apis/webhook-endpoint.ts'
import { webhookEventKind } from '../../src/apis/webhook-event.ts'
import { type NamespaceApi, openNamespace } from './cluster-api.ts'
import { goodDelivery } from './samples/webhook-delivery.ts'
import { goodEndpoint } from './samples/webhook-endpoint.ts'
import { goodEvent } from './samples/webhook-event.ts'

let namespace: NamespaceApi
beforeAll(async () => {
  namespace = await openNamespace('crd')
})
afterAll(() => namespace.close())

const condition = {
  type: 'Ready',
  status: 'True',
  reason: 'Accepted',
  message: '',
  lastTransitionTime: '2026-01-31T12:00:00Z',
}
const attempt = { at: '2026-01-31T12:00:00.000Z', code: 503, latencyMs: 41, error: 'HTTP 503', response: '' }

type StatusRow = { given: string; kind: KindDefinition; status: object; refusal?: string }

const statusRows: StatusRow[] = [
  {
    given: 'eight attempts',
    kind: webhookDeliveryKind,
    status: { attemptCount: 8, attempts: Array(8).fill(attempt) },
  },
  {
    given: 'a ninth attempt',
    kind: webhookDeliveryKind,
    status: { attempts: Array(9).fill(attempt) },
    refusal: 'status.attempts',
  },
  {
    given: 'a count of nine',
    kind: webhookDeliveryKind,
    status: { attemptCount: 9 },
    refusal: 'less than or equal to 8',
  },
  {
    given: 'a state of no delivery',
    kind: webhookDeliveryKind,
    status: { state: 'failed' },
    refusal: 'Unsupported value: "failed"',
  },
  {
    given: 'a reason to cancel',
    kind: webhookDeliveryKind,
    status: { state: 'canceled', reason: 'HeldTooLong' },
  },
  {
    given: 'a reason that is none',
    kind: webhookDeliveryKind,
    status: { reason: 'Bored' },
    refusal: 'status.reason: Unsupported value',
  },
  {
    given: 'a time that is none',
    kind: webhookDeliveryKind,
    status: { nextAttemptAt: 'soon' },
    refusal: 'status.nextAttemptAt',
  },
  {
    given: 'a long response',
    kind: webhookDeliveryKind,
    status: { attempts: [{ ...attempt, response: 'x'.repeat(257) }] },
    refusal: 'Too long',
  },
  {
    given: 'a latency beyond 32 bits',
    kind: webhookDeliveryKind,
    status: { attempts: [{ ...attempt, latencyMs: 2 ** 31 }] },
    refusal: 'int32',
  },
  { given: 'a condition', kind: webhookEndpointKind, status: { conditions: [condition] } },
  {
    given: 'a condition without a reason',
    kind: webhookEndpointKind,
    status: { conditions: [{ ...condition, reason: undefined }] },
    refusal: 'reason: Required value',
  },
  {
    given: 'a condition that is maybe true',
    kind: webhookEndpointKind,
    status: { conditions: [{ ...condition, status: 'Maybe' }] },
    refusal: 'Unsupported value: "Maybe"',
  },
  {
    given: 'a negative count',
    kind: webhookEndpointKind,
    status: { consecutiveFailures: -1 },
    refusal: 'status.consecutiveFailures',
  },
  {
    given: 'a state that holds for a generation',
    kind: webhookEndpointKind,
    status: { override: { state: 'disabled', generation: 4 } },
  },
  {
    given: 'a state that holds for none',
    kind: webhookEndpointKind,
    status: { override: { state: 'disabled' } },
    refusal: 'status.override.generation',
  },
  {
    given: 'a state of no event',
    kind: webhookEventKind,
    status: { state: 'lost' },
    refusal: 'status.state: Unsupported value',
  },
]

describe('a status', () => {
  test.for(statusRows)('gets the same verdict from API server and schema: $given', async (row) => {
    const name = row.given.replaceAll(/[^a-z0-9]+/g, '-')
    const specs = { WebhookEndpoint: goodEndpoint, WebhookDelivery: goodDelivery, WebhookEvent: goodEvent }
    await namespace.create(row.kind, name, specs[row.kind.kind as keyof typeof specs].spec)
    const { status, body } = await namespace.patch(row.kind, name, { status: row.status }, 'status')
    expect(status).toBe(row.refusal ? 422 : 200)
    if (row.refusal) expect(body.message).toContain(row.refusal)
    const parsed = row.kind.status?.safeParse(JSON.parse(JSON.stringify(row.status)))
    expect(parsed?.success).toBe(row.refusal === undefined)
  })

  test('cannot have one type of condition twice', async () => {
    await namespace.create(webhookEndpointKind, 'twice', goodEndpoint.spec)
    const twice = { status: { conditions: [condition, { ...condition, status: 'False' }] } }
    const { status, body } = await namespace.patch(webhookEndpointKind, 'twice', twice, 'status')
    expect({ status, message: body.message }).toEqual({
      status: 422,
      message: expect.stringContaining('status.conditions[1]: Duplicate value'),
    })
  })
})
