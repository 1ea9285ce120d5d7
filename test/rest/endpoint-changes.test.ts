/** Changing endpoints and rolling their secrets over REST (interface §3.1, §4.2 rule 3; settled, "REST shapes"). */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { secrets } from '../../src/apis/core-kinds.ts'
import { webhookEndpoint, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import { codeOf } from '../support/code-of.ts'
import { kubectl } from '../support/control-plane.ts'
import type { TestDavit } from '../support/davit.ts'
import { RestEndpoints } from '../support/rest-endpoints.ts'
import type { RestServer } from '../support/rest-server.ts'
import { signersOf } from '../support/signers.ts'
import { until } from '../support/until.ts'

let bed: RestEndpoints
let davit: TestDavit
let server: RestServer
let other: RestServer

beforeAll(async () => {
  bed = await RestEndpoints.start('rest-endpoint-changes')
  ;({ davit, server, other } = bed)
})

afterAll(async () => {
  await bed?.stop()
})

const nameOf = (endpointId: string) => endpointId.slice('whe_'.length)

describe('changing', () => {
  test('changes what was given alone, and answers with what is in force', async () => {
    const { id, endpoint, etag } = await bed.make('changed', { description: 'before' })
    const changed = await server.endpoints.change(id, { eventTypes: ['*'], ordered: true }, {})
    expect(changed.endpoint).toEqual({
      ...endpoint,
      eventTypes: ['*'],
      ordered: true,
      updatedAt: expect.any(String),
    })
    expect(Date.parse(changed.endpoint.updatedAt)).toBeGreaterThan(Date.parse(endpoint.updatedAt))
    expect(changed.etag).not.toBe(etag)
    const cleared = await server.endpoints.change(id, { description: null }, {})
    expect(cleared.endpoint).not.toHaveProperty('description')
    expect(await other.endpoints.get(id)).toEqual(cleared)
  })

  test('by several at a time loses no field of anybody', async () => {
    const { id } = await bed.make('together')
    const changes = [
      { description: 'together' },
      { ordered: true },
      { concurrency: 3 },
      { eventTypes: ['environment.started'] },
    ]
    await Promise.all(changes.map((change, at) => (at % 2 ? server : other).endpoints.change(id, change, {})))
    const { endpoint } = await server.endpoints.get(id)
    expect(endpoint).toMatchObject(Object.assign({}, ...changes))
  })

  test('with If-Match is done for the version that the caller has seen, and for no other', async () => {
    const { id, etag } = await bed.make('matched')
    const ifMatch = etag ?? ''
    const first = await server.endpoints.change(id, { description: 'one' }, { ifMatch })
    expect(await codeOf(server.endpoints.change(id, { description: 'two' }, { ifMatch }))).toBe(
      'precondition_failed',
    )
    expect(await codeOf(server.endpoints.remove(id, { ifMatch }))).toBe('precondition_failed')
    const racing = [server, other].map(({ endpoints }, at) =>
      codeOf(endpoints.change(id, { description: `racer ${at}` }, { ifMatch: first.etag })),
    )
    expect((await Promise.all(racing)).toSorted()).toEqual(['answered', 'precondition_failed'])
  })

  test('of a status that somebody else has changed since is held back by If-Match', async () => {
    const { id, endpoint, etag: ifMatch = '' } = await bed.make('status-matched')
    const ref = { namespace: davit.organization, name: nameOf(endpoint.endpointId) }
    const annotations = { 'davit.dev/disable-requested-at': new Date(davit.clock.now()).toISOString() }
    await davit.api.patch(webhookEndpoints, ref, { metadata: { annotations } })
    const paused = await until(
      async () => {
        const seen = await server.endpoints.get(id)
        return seen.endpoint.status === 'disabled' ? seen : undefined
      },
      () => 'it is not disabled',
    )
    expect(paused.etag).not.toBe(ifMatch)
    const enable = (tag: string) =>
      codeOf(server.endpoints.change(id, { status: 'enabled' }, { ifMatch: tag }))
    expect(await enable(ifMatch)).toBe('precondition_failed')
    expect(await enable(paused.etag)).toBe('answered')
  })

  test('refuses a forbidden url and unknown types as creating does', async () => {
    const { id } = await bed.make('refusing')
    expect(await codeOf(server.endpoints.change(id, { url: 'https://127.0.0.1.nip.io:99999/' }, {}))).toBe(
      'invalid',
    )
    expect(await codeOf(server.endpoints.change(id, { eventTypes: ['no.such'] }, {}))).toBe('invalid')
  })

  test('to disabled stops what is published afterwards, and to enabled lets it through again', async () => {
    const { id } = await bed.make('paused')
    const paused = await server.endpoints.change(id, { status: 'disabled' }, {})
    expect(paused.endpoint).toMatchObject({ status: 'disabled', disabledReason: 'Requested' })
    expect(await codeOf(server.publishing.ping(id, {}))).toBe('endpoint_disabled')
    await bed.publish(2)
    const resumed = await server.endpoints.change(id, { status: 'enabled' }, {})
    expect(resumed.endpoint).toMatchObject({ status: 'enabled' })
    expect(resumed.endpoint).not.toHaveProperty('disabledReason')
    await bed.publish(3)
    const [request] = await bed.receiver.waitFor(1, { path: '/paused' })
    expect(request?.body.toString()).toContain('env_3')
  })

  test('to enabled works after automatic disabling, and starts a new streak', async () => {
    const { id, endpoint } = await bed.make('automatic')
    const name = nameOf(endpoint.endpointId)
    const at = new Date(davit.clock.now()).toISOString()
    await davit.api.patch(
      webhookEndpoints,
      { namespace: davit.organization, name },
      {
        status: {
          state: 'disabled',
          disabledReason: 'ConsecutiveFailures',
          disabledAt: at,
          announcedAt: at,
          consecutiveFailures: 5,
          failingSince: at,
        },
      },
      { subresource: 'status' },
    )
    await until(
      async () => (await server.endpoints.get(id)).endpoint.status === 'disabled' || undefined,
      () => 'it is not disabled',
    )
    const enabled = await server.endpoints.change(id, { status: 'enabled' }, {})
    expect(enabled.endpoint).toMatchObject({ status: 'enabled', consecutiveFailures: 0 })
    expect(enabled.endpoint).not.toHaveProperty('failingSince')
  })

  test('of one that is managed with kubectl apply pauses it beside its spec, and refuses the rest', async () => {
    const manifest = JSON.stringify({
      apiVersion: 'davit.dev/v1alpha1',
      kind: 'WebhookEndpoint',
      metadata: { name: 'managed', namespace: davit.organization },
      spec: { url: `${bed.receiver.url}/managed`, eventTypes: ['environment.started'] },
    })
    await kubectl(['apply', '--server-side', '-f', '-'], manifest)
    await davit.endpointWhen('managed', ({ status }) => (status?.observedGeneration ?? 0) > 0)
    const id = { organization: davit.organization, endpointId: 'whe_managed' }
    const refusal = await server.endpoints.change(id, { ordered: true }, {}).catch((error) => error)
    expect(refusal).toMatchObject({ code: 'managed_elsewhere', detail: expect.stringContaining('ordered') })
    expect(await codeOf(server.endpoints.remove(id, {}))).toBe('managed_elsewhere')
    await server.publishing.ping(id, {})
    expect((await server.endpoints.roll(id, { expireOld: false }, {})).secret).toBeDefined()
    for (const status of ['disabled', 'enabled', 'disabled'] as const) {
      const { endpoint } = await server.endpoints.change(id, { status }, {})
      expect(endpoint.status).toBe(status)
    }
    const stored = await davit.api.get(webhookEndpoints, { namespace: davit.organization, name: 'managed' })
    expect(webhookEndpoint.parse(stored).spec.state).toBe('enabled')
    expect(stored.metadata.generation).toBe(1)
  })

  test('that nobody acknowledges stays, and says so', async () => {
    const { id } = await bed.make('unacknowledged')
    await davit.controller.stop()
    const answer = codeOf(server.endpoints.change(id, { description: 'later' }, {}))
    await until(
      async () => (await server.endpoints.get(id)).endpoint.description === 'later' || undefined,
      () => 'it was not stored',
    )
    davit.clock.jump(5000)
    expect(await answer).toBe('not_acknowledged')
    await davit.startController()
    expect((await server.endpoints.change(id, { description: 'now' }, {})).endpoint.description).toBe('now')
  })
})

describe('rolling the secret', () => {
  async function signersOfPing(
    id: { organization: string; endpointId: string },
    path: string,
    known: string[],
  ) {
    const before = bed.receiver.received(path).length
    await server.publishing.ping(id, {})
    const request = (await bed.receiver.waitFor(before + 1, { path })).at(-1)
    return request && signersOf(request, known)
  }

  test('the new one signs the very next attempt, beside the old one or alone', async () => {
    const { id, secret: first = '' } = await bed.make('rolled')
    const { secret: second = '', overlapSeconds } = await server.endpoints.roll(id, { expireOld: false }, {})
    expect(overlapSeconds).toBe(86_400)
    expect(await signersOfPing(id, '/rolled', [second, first])).toEqual([0, 1])
    const { secret: third = '', overlapSeconds: none } = await other.endpoints.roll(
      id,
      { expireOld: true },
      {},
    )
    expect(none).toBe(0)
    expect(await signersOfPing(id, '/rolled', [third, second, first])).toEqual([0])
  })

  test('moves updatedAt, and more than five in force are refused', async () => {
    const { id, endpoint } = await bed.make('often')
    davit.clock.jump(10)
    for (let rolls = 0; rolls < 4; rolls += 1) await server.endpoints.roll(id, { expireOld: false }, {})
    const { endpoint: rolled } = await server.endpoints.get(id)
    expect(Date.parse(rolled.updatedAt)).toBeGreaterThan(Date.parse(endpoint.updatedAt))
    expect(await codeOf(server.endpoints.roll(id, { expireOld: false }, {}))).toBe('too_many_secrets')
    expect(await codeOf(server.endpoints.roll(id, { expireOld: true }, {}))).toBe('answered')
  })

  test('by several at a time gives each a secret that is in force', async () => {
    const { id } = await bed.make('race')
    const rolls = [server, other, server].map(({ endpoints }) => endpoints.roll(id, { expireOld: false }, {}))
    const made = (await Promise.all(rolls)).map(({ secret = '' }) => secret)
    const signers = await signersOfPing(id, '/race', made)
    expect(signers?.filter((signer) => signer >= 0).toSorted()).toEqual([0, 1, 2])
  })

  test('that nobody acknowledges says so, and the next one is in force when it is answered', async () => {
    const { id, endpoint } = await bed.make('unseen')
    const name = nameOf(endpoint.endpointId)
    await davit.controller.stop()
    const answer = codeOf(server.endpoints.roll(id, { expireOld: false }, {}))
    const keys = async () => {
      const ref = { namespace: davit.namespace, name: signingSecretName(davit.organization, name) }
      const { data } = await davit.api.get(secrets, ref)
      return JSON.parse(Buffer.from((data as { keys: string }).keys, 'base64').toString('utf8')).keys.length
    }
    await until(
      async () => (await keys()) === 2 || undefined,
      () => 'nothing was stored',
    )
    davit.clock.jump(5000)
    expect(await answer).toBe('not_acknowledged')
    await davit.startController()
    const { secret = '' } = await server.endpoints.roll(id, { expireOld: true }, {})
    expect(await signersOfPing(id, '/unseen', [secret])).toEqual([0])
  })
})
