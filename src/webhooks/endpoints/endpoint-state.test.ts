import { describe, expect, test } from 'vitest'
import type { EndpointState, WebhookEndpoint, WebhookEndpointStatus } from '../../apis/webhook-endpoint.ts'
import { decideState } from './plan.ts'

const CREATED = '2026-01-31T12:00:00Z'
const T1 = '2026-01-31T13:00:00Z'
const T2 = '2026-01-31T14:00:00Z'

type Given = {
  spec?: EndpointState
  generation?: number
  enable?: string
  disable?: string
  status?: Partial<WebhookEndpointStatus>
}

function endpoint({ spec = 'enabled', generation = 4, enable, disable, status }: Given): WebhookEndpoint {
  return {
    metadata: {
      name: 'billing',
      uid: 'uid-1',
      resourceVersion: '7',
      generation,
      creationTimestamp: CREATED,
      annotations: {
        ...(enable === undefined ? {} : { 'davit.dev/enable-requested-at': enable }),
        ...(disable === undefined ? {} : { 'davit.dev/disable-requested-at': disable }),
      },
    },
    spec: {
      url: 'https://billing.example.com/hooks',
      eventTypes: ['*'],
      ordered: false,
      state: spec,
      concurrency: 8,
    },
    ...(status ? { status: { consecutiveFailures: 0, observedGeneration: 4, ...status } } : {}),
  }
}

/** Statuses in which an endpoint may be found. */
const ENABLED = { state: 'enabled' } as const
const PAUSED = { state: 'disabled', disabledReason: 'Requested' } as const
const AUTO = {
  state: 'disabled',
  disabledReason: 'ConsecutiveFailures',
  consecutiveFailures: 5,
  failingSince: '2026-01-30T12:00:00.000Z',
  disabledAt: '2026-01-31T12:30:00.000Z',
  announcedAt: '2026-01-31T12:30:00.000Z',
} as const
const AUTO_THEN_PAUSED = { ...AUTO, disabledReason: 'Requested' } as const

const enabled = { state: 'enabled', newStreak: false }
const fresh = { state: 'enabled', newStreak: true }
const paused = { state: 'disabled', disabledReason: 'Requested', newStreak: false }
const auto = { state: 'disabled', disabledReason: 'ConsecutiveFailures', newStreak: false }

describe('the spec alone', () => {
  test.each([
    { name: 'a new endpoint is enabled', given: {}, want: enabled },
    { name: 'one made disabled is disabled', given: { spec: 'disabled' }, want: paused },
    { name: 'disabling it disables', given: { spec: 'disabled', status: ENABLED }, want: paused },
    { name: 'enabling it enables, and keeps the streak', given: { status: PAUSED }, want: enabled },
    { name: 'enabled stays enabled', given: { status: ENABLED }, want: enabled },
    { name: 'disabled automatically stays disabled', given: { status: AUTO }, want: auto },
    {
      name: 'disabled automatically, then by the owner, is disabled by the owner',
      given: { spec: 'disabled', status: AUTO },
      want: paused,
    },
    {
      name: 'disabled automatically, then disabled and enabled by the owner, starts a new streak',
      given: { status: AUTO_THEN_PAUSED },
      want: fresh,
    },
    {
      name: 'any other edit of one disabled automatically leaves it disabled',
      given: { generation: 9, status: AUTO },
      want: auto,
    },
  ] satisfies { name: string; given: Given; want: object }[])('$name', ({ given, want }) => {
    expect(decideState(endpoint(given))).toMatchObject(want)
  })
})

describe('requests by annotation', () => {
  test.each([
    {
      name: 'a disable request pauses while the spec stays as it is',
      given: { disable: T1, status: ENABLED },
      want: { ...paused, override: { state: 'disabled', generation: 4 }, handled: { disable: T1 } },
    },
    {
      name: 'which holds after it was handled',
      given: {
        disable: T1,
        status: { ...PAUSED, override: { state: 'disabled', generation: 4 }, lastHandled: { disable: T1 } },
      },
      want: { ...paused, override: { state: 'disabled', generation: 4 } },
    },
    {
      name: 'and ends with the next generation of the spec',
      given: {
        generation: 5,
        disable: T1,
        status: { ...PAUSED, override: { state: 'disabled', generation: 4 }, lastHandled: { disable: T1 } },
      },
      want: { ...enabled, override: undefined },
    },
    {
      name: 'an enable request ends it',
      given: {
        disable: T1,
        enable: T2,
        status: { ...PAUSED, override: { state: 'disabled', generation: 4 }, lastHandled: { disable: T1 } },
      },
      want: { ...enabled, override: undefined, handled: { enable: T2 } },
    },
    {
      name: 'an enable request against a spec that says disabled enables',
      given: { spec: 'disabled', enable: T1, status: PAUSED },
      want: { ...enabled, override: { state: 'enabled', generation: 4 } },
    },
    {
      name: 'which holds after it was handled',
      given: {
        spec: 'disabled',
        enable: T1,
        status: { ...ENABLED, override: { state: 'enabled', generation: 4 }, lastHandled: { enable: T1 } },
      },
      want: { ...enabled, override: { state: 'enabled', generation: 4 } },
    },
    {
      name: 'and ends with the next generation of the spec',
      given: {
        spec: 'disabled',
        generation: 5,
        enable: T1,
        status: { ...ENABLED, override: { state: 'enabled', generation: 4 }, lastHandled: { enable: T1 } },
      },
      want: { ...paused, override: undefined },
    },
    {
      name: 'an enable request after automatic disabling starts a new streak',
      given: { enable: T1, status: AUTO },
      want: { ...fresh, override: undefined, handled: { enable: T1 } },
    },
    {
      name: 'also where the other endpoints were not told of it yet',
      given: { enable: T1, status: { ...AUTO, announcedAt: undefined } },
      want: fresh,
    },
    {
      name: 'but one that was handled before does not',
      given: { enable: T1, status: { ...AUTO, lastHandled: { enable: T1 } } },
      want: auto,
    },
    {
      name: 'nor does one older than the object',
      given: { enable: '2026-01-01T00:00:00Z', status: AUTO },
      want: auto,
    },
    {
      name: 'enabling what is enabled keeps the streak',
      given: {
        enable: T1,
        status: { ...ENABLED, consecutiveFailures: 3, failingSince: '2026-01-31T12:10:00.000Z' },
      },
      want: { ...enabled, override: undefined },
    },
    {
      name: 'a disable request after automatic disabling makes it the owner’s',
      given: { disable: T1, status: AUTO },
      want: { ...paused, override: { state: 'disabled', generation: 4 } },
    },
    {
      name: 'an override outlives automatic disabling without undoing it',
      given: {
        spec: 'disabled',
        enable: T1,
        status: { ...AUTO, override: { state: 'enabled', generation: 4 }, lastHandled: { enable: T1 } },
      },
      want: auto,
    },
    {
      name: 'of two requests at once the later one counts',
      given: { enable: T2, disable: T1, status: ENABLED },
      want: { ...enabled, handled: { enable: T2, disable: T1 } },
    },
    {
      name: 'whichever it is',
      given: { enable: T1, disable: T2, status: ENABLED },
      want: { ...paused, handled: { enable: T1, disable: T2 } },
    },
    {
      name: 'of two at the same time the safe one',
      given: { enable: T1, disable: T1, status: ENABLED },
      want: paused,
    },
    {
      name: 'later is told by the time, not by the text',
      given: { enable: '2026-01-31T15:30:00+02:00', disable: T2, status: ENABLED },
      want: paused,
    },
    {
      name: 'disabling in the spec and a handled enable request: the spec counts',
      given: {
        spec: 'disabled',
        generation: 5,
        enable: T1,
        status: { ...ENABLED, lastHandled: { enable: T1 } },
      },
      want: paused,
    },
    {
      name: 'one PATCH that sets the spec and the request after automatic disabling enables',
      given: { spec: 'enabled', generation: 5, enable: T1, status: AUTO_THEN_PAUSED },
      want: fresh,
    },
  ] satisfies { name: string; given: Given; want: object }[])('$name', ({ given, want }) => {
    expect({ override: undefined, ...decideState(endpoint(given)) }).toMatchObject(want)
  })

  test.each([
    {
      given: { enable: 'soon', status: AUTO },
      want: auto,
      says: 'davit.dev/enable-requested-at: "soon" is not a valid time',
    },
    {
      given: { disable: 'true' },
      want: enabled,
      says: 'davit.dev/disable-requested-at: "true" is not a valid time',
    },
    {
      given: { enable: T1, disable: 'no', status: AUTO },
      want: fresh,
      says: 'davit.dev/disable-requested-at: "no"',
    },
  ] satisfies { given: Given; want: object; says: string }[])(
    'that cannot be read change nothing and are named: $says',
    ({ given, want, says }) => {
      const decision = decideState(endpoint(given))
      expect(decision).toMatchObject(want)
      expect(decision.problems).toEqual([expect.stringContaining(says)])
    },
  )
})
