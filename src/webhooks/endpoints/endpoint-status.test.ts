import { describe, expect, test } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import {
  DISABLE_ANNOTATION,
  ENABLE_ANNOTATION,
  type EndpointState,
  type WebhookEndpoint,
  type WebhookEndpointStatus,
  webhookEndpointStatus,
} from '../../apis/webhook-endpoint.ts'
import { decideState, type EndpointObservations, endpointStatus } from './plan.ts'

const START = Date.parse('2026-01-31T12:00:00.000Z')
const HOUR = 3_600_000
const NOTHING: EndpointObservations = { problems: [], handled: {}, announced: undefined, rolled: false }
const KEYS = { keys: [{ secret: 'whsec_x', createdAt: '2026-01-31T12:00:00.000Z' }] }

function iso(ms: number): string {
  return new Date(ms).toISOString()
}

function endpoint(status?: Partial<WebhookEndpointStatus>): WebhookEndpoint {
  return {
    metadata: {
      name: 'billing',
      namespace: 'acme',
      uid: 'uid-1',
      resourceVersion: '7',
      generation: 1,
      creationTimestamp: '2026-01-31T12:00:00Z',
      annotations: {},
    },
    spec: {
      url: 'https://billing.example.com/hooks',
      eventTypes: ['*'],
      ordered: false,
      state: 'enabled',
      concurrency: 8,
    },
    ...(status ? { status: { consecutiveFailures: 0, observedGeneration: 1, ...status } } : {}),
  }
}

/** The status after one look at the endpoint, as the reconciler takes it. */
function look(
  at: WebhookEndpoint,
  now: number,
  found: Partial<EndpointObservations> = {},
): WebhookEndpointStatus {
  const decision = decideState(at)
  const handled = { ...at.status?.lastHandled, ...decision.handled }
  const announced =
    at.status?.disabledReason === 'ConsecutiveFailures' ? at.status.disabledAt : at.status?.announcedAt
  return endpointStatus({ endpoint: at, decision, keys: KEYS }, now, {
    ...NOTHING,
    handled,
    announced,
    ...found,
  })
}

describe('what may make attempts fail', () => {
  const warning = 'Davit sends plain HTTP only to networks that the cluster operator allows.'
  const readyOf = (found: Partial<EndpointObservations>, at = endpoint()) =>
    look(at, START, found).conditions?.find(({ type }) => type === 'Ready')

  test('is in the message of an endpoint that is ready', () => {
    expect(readyOf({ warning })).toMatchObject({
      status: 'True',
      reason: 'Accepted',
      message: `The endpoint receives the events it subscribes to. ${warning}`,
    })
    expect(readyOf({})?.message).toBe('The endpoint receives the events it subscribes to.')
  })

  test('gives way to what is wrong already, and to a pause', () => {
    const problems = [{ reason: 'UnknownEventTypes', message: 'EventType not found: a.' }] as const
    expect(readyOf({ warning, problems })?.message).toBe(problems[0].message)
    const paused = endpoint()
    paused.spec.state = 'disabled'
    expect(readyOf({ warning }, paused)).toMatchObject({
      reason: 'Paused',
      message: expect.not.stringContaining('HTTP'),
    })
  })
})

test('how its owners were told stays beside it for as long as it is disabled for its failures', () => {
  const told = {
    status: 'True',
    reason: 'Sent',
    message: '',
    lastTransitionTime: iso(START),
    observedGeneration: 1,
  }
  const conditions = ['Ready', 'OwnersNotified'].map((type) => ({ type, ...told }) as const)
  const disabled = { state: 'disabled', disabledAt: iso(START), conditions } as const
  const reasonsOf = (reason: 'ConsecutiveFailures' | 'Requested', state: 'enabled' | 'disabled') => {
    const at = endpoint({ ...disabled, disabledReason: reason } as Partial<WebhookEndpointStatus>)
    const { conditions = [] } = look({ ...at, spec: { ...at.spec, state } }, START + HOUR)
    return conditions.filter(({ type }) => type === 'OwnersNotified').map(({ reason }) => reason)
  }
  const ownerEmails = [{ digest: '0123456789abcdef', rejection: 'gone' }]
  const emailsOf = (reason: 'ConsecutiveFailures' | 'Requested', state: 'enabled' | 'disabled') => {
    const at = endpoint({
      ...disabled,
      disabledReason: reason,
      ownerEmails,
    } as Partial<WebhookEndpointStatus>)
    return look({ ...at, spec: { ...at.spec, state } }, START + HOUR).ownerEmails
  }
  expect(emailsOf('ConsecutiveFailures', 'enabled')).toEqual(ownerEmails)
  expect(emailsOf('Requested', 'disabled')).toBeUndefined()
  expect(reasonsOf('ConsecutiveFailures', 'enabled')).toEqual(['Sent'])
  expect(reasonsOf('Requested', 'disabled')).toEqual([])
})

test('a first look at a new endpoint', () => {
  const status = look(endpoint(), START)
  expect(status).toMatchObject({
    state: 'enabled',
    consecutiveFailures: 0,
    observedGeneration: 1,
    updatedAt: '2026-01-31T12:00:00.000Z',
  })
  expect(Object.keys(status).toSorted()).toEqual([
    'conditions',
    'consecutiveFailures',
    'observedGeneration',
    'signingSecrets',
    'state',
    'updatedAt',
  ])
  expect(JSON.stringify(status)).not.toContain('whsec_')
})

test('an API server that does not keep some of the fields gets the same status again, so that no pass leads to another', () => {
  const fields = Object.keys(webhookEndpointStatus.shape)
  const wanted = fc.constantFrom<EndpointState>('enabled', 'disabled')
  const FAILED = { disabledReason: 'ConsecutiveFailures', state: 'disabled', disabledAt: iso(START) } as const
  const before = fc.constantFrom<Partial<WebhookEndpointStatus> | undefined>(undefined, {}, FAILED)
  fc.assert(
    fc.property(fc.subarray(fields), wanted, before, (missing, state, status) => {
      const keep = (all: WebhookEndpointStatus) =>
        Object.fromEntries(Object.entries(all).filter(([name]) => !missing.includes(name)))
      const at = endpoint(status)
      const asked = { ...at, spec: { ...at.spec, state } }
      const once = keep(look(asked, START + HOUR))
      const read = (status: object) => ({ ...asked, status: webhookEndpointStatus.parse(status) })
      const twice = keep(look(read(once), START + 2 * HOUR))
      const third = keep(look(read(twice), START + 3 * HOUR))
      expect(third).toEqual(twice)
    }),
  )
})

test('before its keys are made, an endpoint shows none and is not ready', () => {
  const at = endpoint()
  const status = endpointStatus({ endpoint: at, decision: decideState(at) }, START, NOTHING)
  expect(status.signingSecrets).toBeUndefined()
  expect(status.conditions?.find(({ type }) => type === 'Ready')).toMatchObject({ status: 'False' })
})

describe('updatedAt', () => {
  const before = look(endpoint(), START)
  const later = START + HOUR

  test('stays when nothing changed that the owner can see', () => {
    expect(look(endpoint(before), later)).toStrictEqual(before)
  })

  test('stays when only the counter moved', () => {
    const failing = { ...before, consecutiveFailures: 3, failingSince: iso(START), lastCounted: 'msg_x' }
    expect(look(endpoint(failing), later).updatedAt).toBe(before.updatedAt)
  })

  test('moves with the spec', () => {
    const at = endpoint(before)
    expect(look({ ...at, metadata: { ...at.metadata, generation: 2 } }, later).updatedAt).toBe(iso(later))
  })

  test('moves with the state', () => {
    const at = endpoint(before)
    at.metadata.annotations = { [DISABLE_ANNOTATION]: iso(later) }
    expect(look(at, later).updatedAt).toBe(iso(later))
  })

  test('is the time of its creation until something changes, however late anybody looks', () => {
    expect(look(endpoint(), later).updatedAt).toBe(iso(START))
    const at = endpoint()
    expect(look({ ...at, metadata: { ...at.metadata, generation: 2 } }, later).updatedAt).toBe(iso(later))
    at.metadata.annotations = { [DISABLE_ANNOTATION]: iso(START) }
    expect(look(at, later).updatedAt).toBe(iso(later))
  })

  test('moves with a key that somebody else has rolled', () => {
    const at = endpoint({
      ...before,
      signingSecrets: [{ fingerprint: '0'.repeat(16), createdAt: iso(START) }],
    })
    expect(look(at, later).updatedAt).toBe(iso(later))
  })

  test('moves with a roll', () => {
    expect(look(endpoint(before), later, { rolled: true }).updatedAt).toBe(iso(later))
  })

  test('moves when the owner takes over what Davit had disabled', () => {
    const auto = {
      ...before,
      state: 'disabled',
      disabledReason: 'ConsecutiveFailures',
      disabledAt: iso(START),
    } as const
    const at = endpoint(look(endpoint(auto), START))
    at.metadata.annotations = { [DISABLE_ANNOTATION]: iso(later) }
    const status = look(at, later)
    expect(status).toMatchObject({ disabledReason: 'Requested', disabledAt: iso(START) })
    expect(status.updatedAt).toBe(iso(later))
  })
})

type Act =
  | { kind: 'spec'; state: EndpointState }
  | { kind: 'edit' | 'enable' | 'disable' | 'success' | 'exhausted' | 'autoDisable' | 'look' }
  | { kind: 'old' | 'garbage'; annotation: typeof ENABLE_ANNOTATION | typeof DISABLE_ANNOTATION }

const annotation = fc.constantFrom(ENABLE_ANNOTATION, DISABLE_ANNOTATION)
const act: fc.Arbitrary<Act> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('spec' as const),
      state: fc.constantFrom('enabled', 'disabled'),
    }),
  },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constantFrom('edit', 'enable', 'disable', 'success', 'exhausted', 'autoDisable', 'look'),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({ kind: fc.constantFrom('old' as const, 'garbage' as const), annotation }),
  },
)

/** The rules as they are written for owners, acted out one event at a time. */
class Model {
  spec: EndpointState = 'enabled'
  override: EndpointState | undefined
  state: EndpointState = 'enabled'
  reason: 'Requested' | 'ConsecutiveFailures' | undefined
  /** Disabled automatically, and not enabled since. */
  automatic = false
  failures = 0

  act(given: Act): void {
    if (given.kind === 'spec' && given.state !== this.spec) {
      this.spec = given.state
      this.override = undefined
    }
    if (given.kind === 'edit') this.override = undefined
    if (given.kind === 'disable') this.override = 'disabled'
    if (given.kind === 'enable') this.override = 'enabled'
    if (given.kind === 'success') this.failures = 0
    if (given.kind === 'exhausted') this.failures += 1
    if (given.kind === 'autoDisable' && this.state === 'enabled') this.automatic = true
    this.#settle(given.kind === 'enable')
  }

  #settle(enableAsked: boolean): void {
    const paused = this.state === 'disabled' && this.reason === 'Requested'
    if ((this.override ?? this.spec) === 'disabled') {
      this.state = 'disabled'
      this.reason = 'Requested'
    } else if (this.automatic && !paused && !enableAsked) {
      this.state = 'disabled'
      this.reason = 'ConsecutiveFailures'
    } else {
      if (this.automatic) this.failures = 0
      this.automatic = false
      this.state = 'enabled'
      this.reason = undefined
    }
  }
}

/** The same event, done to the object as the API server and the delivery plane do it. */
function perform(at: WebhookEndpoint, given: Act, now: number): void {
  const { metadata, status } = at
  const annotations = metadata.annotations ?? {}
  if (given.kind === 'spec' && given.state !== at.spec.state) {
    at.spec.state = given.state
    metadata.generation = (metadata.generation ?? 0) + 1
  }
  if (given.kind === 'edit') metadata.generation = (metadata.generation ?? 0) + 1
  if (given.kind === 'enable') annotations[ENABLE_ANNOTATION] = iso(now)
  if (given.kind === 'disable') annotations[DISABLE_ANNOTATION] = iso(now)
  if (given.kind === 'old') annotations[given.annotation] = iso(START - now / 1000)
  if (given.kind === 'garbage') annotations[given.annotation] = `soon ${now}`
  if (status) Object.assign(status, statusAfter(status, given, now))
}

function statusAfter(
  status: WebhookEndpointStatus,
  { kind }: Act,
  now: number,
): Partial<WebhookEndpointStatus> {
  if (kind === 'success') return { consecutiveFailures: 0, failingSince: undefined }
  if (kind === 'exhausted') {
    return {
      consecutiveFailures: status.consecutiveFailures + 1,
      failingSince: status.failingSince ?? iso(now),
    }
  }
  if (kind !== 'autoDisable' || status.state !== 'enabled') return {}
  return {
    state: 'disabled',
    disabledReason: 'ConsecutiveFailures',
    disabledAt: iso(now),
    updatedAt: iso(now),
  }
}

/** What is shown to the owner, and moves updatedAt. */
const shown = (at: WebhookEndpoint) =>
  [at.metadata.generation, at.status?.state, at.status?.disabledReason].join()

test('over any course of specs, requests, failures and automatic disabling, the status says what the rules say', () => {
  fc.assert(
    fc.property(fc.array(act, { maxLength: 40 }), (course) => {
      const at = endpoint()
      const model = new Model()
      at.status = look(at, START)
      course.forEach((given, step) => {
        const now = START + (step + 1) * HOUR
        const before = { shown: shown(at), updatedAt: at.status?.updatedAt }
        perform(at, given, now)
        model.act(given)
        const status = look(at, now)
        at.status = status
        expect({ state: status.state, reason: status.disabledReason }).toEqual({
          state: model.state,
          reason: model.reason,
        })
        expect(status.consecutiveFailures).toBe(model.failures)
        expect(status.failingSince !== undefined).toBe(model.failures > 0)
        expect(status.disabledAt !== undefined).toBe(model.state === 'disabled')
        expect(status.updatedAt).toBe(shown(at) === before.shown ? before.updatedAt : iso(now))
        expect(webhookEndpointStatus.safeParse(status).success).toBe(true)
        expect(look(at, now + 1)).toStrictEqual(status)
      })
    }),
    { numRuns: 500 },
  )
})
