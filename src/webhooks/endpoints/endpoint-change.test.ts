import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { DISABLE_ANNOTATION, ENABLE_ANNOTATION, type WebhookEndpoint } from '../../apis/webhook-endpoint.ts'
import { decideState, isAcknowledged, planChange, type WantedChange } from './plan.ts'

const NOW = Date.parse('2026-01-31T12:00:00.000Z')
const iso = (ms: number) => new Date(ms).toISOString()

function endpoint(over: Partial<WebhookEndpoint['spec']> = {}): WebhookEndpoint {
  return {
    metadata: {
      name: 'billing',
      namespace: 'acme',
      uid: 'uid-1',
      resourceVersion: '7',
      generation: 1,
      creationTimestamp: '2026-01-31T11:00:00Z',
    },
    spec: {
      url: 'https://billing.example.com/hooks',
      eventTypes: ['*'],
      ordered: false,
      state: 'enabled',
      concurrency: 8,
      ...over,
    },
  }
}

test('only what was given is in the patch, and null takes the description away', () => {
  const plan = planChange(endpoint(), { eventTypes: ['a.b'], description: null, url: undefined }, false, NOW)
  expect(plan).toEqual({ kind: 'patch', spec: { eventTypes: ['a.b'], description: null } })
})

test('nothing given is no change', () => {
  expect(planChange(endpoint(), {}, false, NOW)).toEqual({ kind: 'patch' })
})

describe('where the spec is managed elsewhere', () => {
  test('pausing becomes a request by annotation, and the spec stays', () => {
    expect(planChange(endpoint(), { status: 'disabled' }, true, NOW)).toEqual({
      kind: 'patch',
      annotations: { [DISABLE_ANNOTATION]: iso(NOW) },
      request: { state: 'disabled', at: NOW },
    })
  })

  test('other fields are refused by name', () => {
    const change: WantedChange = { status: 'disabled', ordered: true, description: 'x' }
    expect(planChange(endpoint(), change, true, NOW)).toEqual({
      kind: 'managed',
      fields: ['ordered', 'description'],
    })
  })

  test('a field that stays as it is does no harm', () => {
    const change: WantedChange = { eventTypes: ['*'], ordered: false, description: null, status: 'enabled' }
    expect(planChange(endpoint(), change, true, NOW).kind).toBe('patch')
  })
})

describe('the time of a request', () => {
  test.each([
    { why: 'now', annotations: {}, want: NOW },
    { why: 'behind the request before', annotations: { [ENABLE_ANNOTATION]: iso(NOW) }, want: NOW + 1 },
    {
      why: 'behind one of a clock that is ahead',
      annotations: { [DISABLE_ANNOTATION]: iso(NOW + 900) },
      want: NOW + 901,
    },
    { why: 'whatever nonsense is there', annotations: { [ENABLE_ANNOTATION]: 'soon' }, want: NOW },
    {
      why: 'but not in the far future',
      annotations: { [ENABLE_ANNOTATION]: '9999-01-01T00:00:00Z' },
      want: NOW,
    },
  ])('is $why', ({ annotations, want }) => {
    const at = endpoint()
    at.metadata.annotations = annotations
    expect(planChange(at, { status: 'enabled' }, false, NOW)).toMatchObject({ request: { at: want } })
  })

  test('is not older than the object, where the clock is behind', () => {
    const at = {
      ...endpoint(),
      metadata: { ...endpoint().metadata, creationTimestamp: '2026-01-31T12:00:09Z' },
    }
    expect(planChange(at, { status: 'disabled' }, false, NOW)).toMatchObject({ request: { at: NOW + 9000 } })
  })
})

/** What the controller makes of the object as it is patched, one look after each or after several. */
function patched(at: WebhookEndpoint, wanted: WantedChange, managed: boolean, now: number): WebhookEndpoint {
  const plan = planChange(at, wanted, managed, now)
  if (plan.kind === 'managed') return at
  const { annotations = {}, spec = {} } = plan
  const changed = { ...at.spec, ...spec }
  const moved = JSON.stringify(changed) === JSON.stringify(at.spec) ? 0 : 1
  const generation = (at.metadata.generation ?? 0) + moved
  return {
    ...at,
    metadata: { ...at.metadata, generation, annotations: { ...at.metadata.annotations, ...annotations } },
    spec: changed,
  }
}

function looked(at: WebhookEndpoint): WebhookEndpoint {
  const { state, disabledReason, override, handled } = decideState(at)
  return {
    ...at,
    status: {
      consecutiveFailures: 0,
      observedGeneration: at.metadata.generation ?? 0,
      state,
      ...(disabledReason ? { disabledReason } : {}),
      ...(override ? { override } : {}),
      lastHandled: { ...at.status?.lastHandled, ...handled },
    },
  }
}

test('whatever was before, an endpoint is as the last PATCH wants it, once that is acknowledged', () => {
  const step = fc.record({
    managed: fc.boolean(),
    status: fc.constantFrom('enabled' as const, 'disabled' as const),
    /** The clocks of two replicas are not the same. */
    skew: fc.integer({ min: -500, max: 500 }),
    /** Davit disables it before. */
    failing: fc.boolean(),
    lookBetween: fc.boolean(),
  })
  fc.assert(
    fc.property(fc.array(step, { minLength: 1, maxLength: 12 }), (steps) => {
      let at = looked(endpoint())
      for (const { managed, status, skew, failing, lookBetween } of steps) {
        if (failing && at.status?.state === 'enabled')
          at = { ...at, status: { ...at.status, state: 'disabled', disabledReason: 'ConsecutiveFailures' } }
        const plan = planChange(at, { status }, managed, NOW + skew)
        at = patched(at, { status }, managed, NOW + skew)
        if (!lookBetween) continue
        at = looked(at)
        expect(at.status?.state).toBe(status)
        const request = plan.kind === 'patch' ? plan.request : undefined
        expect(isAcknowledged(at, at.metadata.generation ?? 0, request)).toBe(true)
      }
      const last = steps.at(-1)
      expect(looked(at).status?.state).toBe(last?.status)
    }),
  )
})

test('a PATCH is not acknowledged before its generation and its request were looked at', () => {
  const at = looked(endpoint())
  const request = { state: 'disabled', at: NOW } as const
  expect(isAcknowledged(at, 1, undefined)).toBe(true)
  expect(isAcknowledged(at, 2, undefined)).toBe(false)
  expect(isAcknowledged(at, 1, request)).toBe(false)
  expect(isAcknowledged(endpoint(), 0, undefined)).toBe(false)
})
