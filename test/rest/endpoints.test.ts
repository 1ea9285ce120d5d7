/**
 * Endpoints over REST, on the real API server and with the real controller (interface §2.3, §3.1, §4.2; settled, "REST shapes").
 */

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { leases, secrets } from '../../src/apis/core-kinds.ts'
import { createdAtOf } from '../../src/apis/ids.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { ApiError } from '../../src/kube/client.ts'
import { Problem } from '../../src/server/http/problems.ts'
import { signingSecretName } from '../../src/webhooks/endpoints/directory.ts'
import { codeOf } from '../support/code-of.ts'
import type { TestDavit } from '../support/davit.ts'
import { type ApiCall, calling } from '../support/faulty-api.ts'
import { startLiveServer } from '../support/live-server.ts'
import { RestEndpoints } from '../support/rest-endpoints.ts'
import type { RestServer } from '../support/rest-server.ts'
import { signersOf } from '../support/signers.ts'

let bed: RestEndpoints
let davit: TestDavit
let server: RestServer
let other: RestServer

beforeAll(async () => {
  bed = await RestEndpoints.start('rest-endpoints')
  ;({ davit, server, other } = bed)
})

afterAll(async () => {
  await bed?.stop()
})

/** Writes that a request may have caused: the REST server renews its lease at any time. */
const isNoRenewal = ({ plural }: ApiCall) => plural !== leases.plural

const nameOf = (endpointId: string) => endpointId.slice('whe_'.length)

describe('creating', () => {
  test('answers with the whole endpoint and its secret, which signs the first event published after the answer', async () => {
    const { endpoint, secret, etag, replayed } = await bed.make('first', { description: 'Grüße 🙂' })
    expect(endpoint).toEqual({
      endpointId: expect.stringMatching(/^whe_[0-9a-z]{26}$/),
      url: `${bed.receiver.url}/first`,
      eventTypes: ['environment.started'],
      description: 'Grüße 🙂',
      ordered: false,
      status: 'enabled',
      consecutiveFailures: 0,
      concurrency: 8,
      createdAt: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/),
      updatedAt: endpoint.createdAt,
    })
    expect(secret).toMatch(/^whsec_[A-Za-z0-9+/]{32}$/)
    expect(etag).toMatch(/^"[^"]+"$/)
    expect(replayed).toBe(false)
    await bed.publish(1)
    const [request] = await bed.receiver.waitFor(1, { path: '/first' })
    expect(request && signersOf(request, [secret ?? ''])).toEqual([0])
  })

  test('has the time at which the API server made it, whatever its manifest says', async () => {
    const { id, endpoint } = await bed.make('dated')
    const stored = async (name: string) => {
      const { metadata } = await davit.api.get(webhookEndpoints, { namespace: davit.organization, name })
      return String(metadata.creationTimestamp)
    }
    // That has whole seconds; the name that Davit has made tells the milliseconds.
    const made = Date.parse(await stored(nameOf(endpoint.endpointId)))
    expect(Math.abs(Date.parse(endpoint.createdAt) - made)).toBeLessThan(5000)
    expect((await server.endpoints.get(id)).endpoint.createdAt).toBe(endpoint.createdAt)
    const before = Math.floor(Date.now() / 1000) * 1000
    await davit.api.create(webhookEndpoints, {
      apiVersion: API_VERSION,
      kind: 'WebhookEndpoint',
      metadata: {
        name: 'by-hand',
        namespace: davit.organization,
        creationTimestamp: '2020-01-01T00:00:00Z',
      },
      spec: { url: `${bed.receiver.url}/by-hand`, eventTypes: ['member.joined'] },
    })
    const byHand = { organization: davit.organization, endpointId: 'whe_by-hand' }
    for (const { endpoints } of [server, other]) {
      const { createdAt } = (await endpoints.get(byHand)).endpoint
      expect(Date.parse(createdAt)).toBe(Date.parse(await stored('by-hand')))
      expect(Date.parse(createdAt)).toBeGreaterThanOrEqual(before)
    }
  })

  test('is read, by this replica and the other, just as it was answered', async () => {
    const { endpoint, etag, id } = await bed.make('read')
    for (const { endpoints } of [server, other]) expect(await endpoints.get(id)).toEqual({ endpoint, etag })
  })

  test('leaves the key to the controller, which binds it and makes no other', async () => {
    const { endpoint, secret } = await bed.make('bound')
    const name = nameOf(endpoint.endpointId)
    const stored = await davit.endpointWhen(name, ({ status }) => status?.signingSecrets !== undefined)
    const file = await davit.api.get(secrets, {
      namespace: davit.namespace,
      name: signingSecretName(davit.organization, name),
    })
    const { keys } = file.data as { keys: string }
    expect(JSON.parse(Buffer.from(keys, 'base64').toString('utf8'))).toMatchObject({
      endpointUid: stored.metadata.uid,
      keys: [{ secret }],
    })
    expect(createdAtOf(stored.metadata)).toBe(endpoint.createdAt)
  })

  test.each([
    { why: 'an address that is forbidden', more: { url: 'https://10.1.2.3/hooks' }, want: '/url' },
    {
      why: 'an event type that nobody knows',
      more: { eventTypes: ['environment.started', 'no.such'] },
      want: '/eventTypes/1',
    },
  ])('refuses $why, with the place and the reason, and writes nothing', async ({ more, want }) => {
    const before = server.api.calls.length
    const refusal = await server.endpoints
      .create(davit.organization, bed.draft('refused', more), {})
      .catch((e) => e)
    expect(refusal).toBeInstanceOf(Problem)
    expect(refusal).toMatchObject({ code: 'invalid', errors: [{ pointer: want }] })
    expect(refusal.errors[0].message.length).toBeGreaterThan(10)
    expect(server.api.calls.slice(before).filter(isNoRenewal)).toEqual([])
  })

  test('takes its key back when the endpoint cannot be made', async () => {
    server.api.fail(calling('create', webhookEndpoints), {
      before: new ApiError('Quota', 'exceeded quota: x'),
    })
    const calls = server.api.calls.length
    expect(await codeOf(server.endpoints.create(davit.organization, bed.draft('quota'), {}))).toBe(
      'too_many_endpoints',
    )
    const [made] = server.api.calls
      .slice(calls)
      .filter(({ verb, plural }) => verb === 'create' && plural === 'secrets')
    const ref = { namespace: davit.namespace, name: made?.name ?? '' }
    await expect(davit.api.get(secrets, ref)).rejects.toMatchObject({ kind: 'NotFound' })
  })

  test('stops at as many endpoints as the organization may have, also when many come at a time', async () => {
    const held = [...server.directory.inNamespace(davit.organization)].length
    const limited = await startLiveServer(davit, { endpointsPerOrganization: held + 2 })
    const answers = await Promise.all(
      Array.from({ length: 5 }, (_, number) =>
        codeOf(limited.endpoints.create(davit.organization, bed.draft(`limited-${number}`), {})),
      ),
    )
    await limited.stop()
    expect(answers.toSorted()).toEqual(['answered', 'answered', ...Array(3).fill('too_many_endpoints')])
  })
})

describe('listing', () => {
  test('goes by name through pages, and a deleted endpoint is no end of it', async () => {
    const ids: string[] = []
    for (let number = 0; number < 5; number += 1)
      ids.push((await bed.make(`listed-${number}`)).endpoint.endpointId)
    const all = await server.endpoints.list(davit.organization, { limit: 200 })
    expect(all.next).toBeUndefined()
    const names = all.endpoints.map(({ endpointId }) => endpointId)
    expect(names).toEqual(names.toSorted())
    expect(names).toEqual(expect.arrayContaining(ids))
    const paged: string[] = []
    let after: string | undefined
    do {
      const page = await other.endpoints.list(davit.organization, { limit: 2, after })
      paged.push(...page.endpoints.map(({ endpointId }) => endpointId))
      after = page.next
      if (paged.length === 2)
        await server.endpoints.remove({ organization: davit.organization, endpointId: paged[1] ?? '' }, {})
    } while (after !== undefined)
    expect(paged).toEqual(names)
  })

  test('shows nothing of another organization', async () => {
    expect(await codeOf(server.endpoints.list('nobody', { limit: 10 }))).toBe('not_found')
  })
})

describe('deleting', () => {
  test('is done at once, whatever a finalizer still does', async () => {
    const { id, endpoint } = await bed.make('deleted')
    const name = nameOf(endpoint.endpointId)
    const ref = { namespace: davit.organization, name }
    await davit.api.patch(webhookEndpoints, ref, { metadata: { finalizers: ['example.com/wait'] } })
    await server.endpoints.remove(id, {})
    for (const { endpoints } of [server, other]) {
      expect(await codeOf(endpoints.get(id))).toBe('not_found')
      expect(await codeOf(endpoints.change(id, { ordered: true }, {}))).toBe('not_found')
      expect(await codeOf(endpoints.remove(id, {}))).toBe('not_found')
      const { endpoints: listed } = await endpoints.list(davit.organization, { limit: 200 })
      expect(listed.map(({ endpointId }) => endpointId)).not.toContain(id.endpointId)
    }
    await davit.api.patch(webhookEndpoints, ref, { metadata: { finalizers: null } })
  })

  test.each(['whe_', 'whe_nobody', 'whe_../secrets', 'msg_x', 'whe_%2f', 'whe_A'])(
    'of %s finds nothing, as every other operation does',
    async (endpointId) => {
      const id = { organization: davit.organization, endpointId }
      const { endpoints, publishing } = server
      const answers = [
        endpoints.get(id),
        endpoints.change(id, { ordered: true }, {}),
        endpoints.remove(id, {}),
        endpoints.roll(id, { expireOld: false }, {}),
        publishing.ping(id, {}),
        publishing.redeliver({ ...id, deliveryId: `msg_${'0'.repeat(26)}` }, {}),
      ]
      expect(new Set(await Promise.all(answers.map(codeOf)))).toEqual(new Set(['not_found']))
    },
  )
})
