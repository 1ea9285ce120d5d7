/** An ETag stands for all that a response shows, whoever changed it. */
import { describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { CredentialsBed, token } from '../../test/support/credentials-bed.ts'
import { draft, EndpointsBed } from '../../test/support/endpoints-bed.ts'
import { registryCredentials } from '../apis/registry-credential.ts'
import { webhookEndpoints } from '../apis/webhook-endpoint.ts'
import { SecretText } from '../lib/redact.ts'

const LATER = '2026-02-01T00:00:00.000Z'

test('the ETag of a create is that of a read, also once the controller has handled it', async () => {
  const endpoints = new EndpointsBed()
  const made = await endpoints.answer(endpoints.endpoints.create('acme', draft(), {}))
  for (let turn = 0; turn < 5; turn += 1) await endpoints.turn()
  const { endpointId } = made.endpoint
  expect((await endpoints.endpoints.get({ organization: 'acme', endpointId })).etag).toBe(made.etag)
  const credentials = new CredentialsBed()
  await credentials.connect()
  const server = credentials.server()
  const { credential, etag } = await credentials.answer(server.create('acme', token(), {}))
  const id = { organization: 'acme', credentialId: credential.id }
  expect((await server.get(id)).etag).toBe(etag)
})

describe('the ETag of an endpoint', () => {
  async function made() {
    const bed = new EndpointsBed()
    const id = await bed.make()
    const ref = { namespace: id.organization, name: id.endpointId.slice('whe_'.length) }
    const patch = (change: object, how: { subresource?: 'status' }) =>
      bed.store.patch(webhookEndpoints, ref, change, how)
    return { bed, id, patch, etag: (await bed.endpoints.get(id)).etag }
  }

  test.each([
    {
      what: 'a pause, of an endpoint whose spec Git manages',
      status: { state: 'disabled', disabledReason: 'Requested' },
    },
    {
      what: 'automatic disabling',
      status: { state: 'disabled', disabledReason: 'ConsecutiveFailures', consecutiveFailures: 5 },
    },
    { what: 'a rotation of its secret', status: { updatedAt: LATER } },
    {
      what: 'another reason of being disabled',
      status: { state: 'disabled', disabledReason: 'ConsecutiveFailures', updatedAt: LATER },
    },
  ])('changes with $what, so that If-Match holds back a change', async ({ status }) => {
    const { bed, id, patch, etag } = await made()
    await patch({ status }, { subresource: 'status' })
    expect((await bed.endpoints.get(id)).etag).not.toBe(etag)
    const changing = bed.endpoints.change(id, { status: 'enabled' }, { ifMatch: etag })
    expect(await codeOf(bed.answer(changing))).toBe('precondition_failed')
    expect(await codeOf(bed.endpoints.remove(id, { ifMatch: etag }))).toBe('precondition_failed')
  })

  test.each([
    { what: 'its failures are counted', status: { consecutiveFailures: 3, failingSince: LATER } },
    { what: 'the controller reports what it has seen', status: { observedGeneration: 9 } },
    { what: 'its keys are reported', status: { signingSecrets: [] } },
  ])('stays while $what, so that an endpoint that fails can be changed', async ({ status }) => {
    const { bed, id, patch, etag } = await made()
    await patch({ status }, { subresource: 'status' })
    expect((await bed.endpoints.get(id)).etag).toBe(etag)
    expect(await codeOf(bed.endpoints.remove(id, { ifMatch: etag }))).toBe('answered')
  })

  const key = (n: number, expiresAt?: string) => ({
    fingerprint: `${n}`.repeat(16),
    createdAt: `2026-01-0${n}T00:00:00.000Z`,
    ...(expiresAt === undefined ? {} : { expiresAt }),
  })
  test.each([
    { what: 'one of two keys', before: [key(2), key(1, LATER)], after: [key(2)] },
    { what: 'two of three keys', before: [key(3), key(2, LATER), key(1, LATER)], after: [key(3)] },
    { what: 'the middle one', before: [key(3), key(2, LATER), key(1)], after: [key(3), key(1)] },
    { what: 'the last key', before: [key(1, LATER)], after: [] },
  ])('stays when $what ends, which only the list without an ETag shows', async ({ before, after }) => {
    const { bed, id, patch } = await made()
    await patch({ status: { signingSecrets: before } }, { subresource: 'status' })
    const [seen, keys] = [await bed.endpoints.get(id), await bed.endpoints.secrets(id)]
    await patch({ status: { signingSecrets: after } }, { subresource: 'status' })
    expect(await bed.endpoints.get(id)).toEqual(seen)
    expect(await bed.endpoints.secrets(id)).not.toEqual(keys)
  })

  test('changes with a field of the spec that no response shows', async () => {
    const { bed, id, patch, etag } = await made()
    await patch({ metadata: { generation: 2 }, spec: { signingSecret: { name: 'shared' } } }, {})
    expect((await bed.endpoints.get(id)).etag).not.toBe(etag)
  })
})

describe('the ETag of a credential', () => {
  test.each([
    { what: 'a secret by REST', change: { secret: new SecretText('the next one') } },
    { what: 'a label by REST', change: { label: 'Next' } },
    { what: 'a secret by kubectl', status: { updatedAt: LATER } },
  ])('changes with $what, so that no other one is lost', async ({ change, status }) => {
    const bed = new CredentialsBed()
    await bed.connect()
    const id = await bed.make()
    const { etag } = await bed.server().get(id)
    const ref = { namespace: id.organization, name: id.credentialId.slice('rc_'.length) }
    bed.clock.advance(1000)
    if (change) await bed.answer(bed.server().change(id, change, {}))
    else await bed.store.patch(registryCredentials, ref, { status }, { subresource: 'status' })
    const after = await bed.server().get(id)
    expect(after.etag).not.toBe(etag)
    const late = bed.server().change(id, { secret: new SecretText('a late one') }, { ifMatch: etag })
    expect(await codeOf(bed.answer(late))).toBe('precondition_failed')
    const seen = bed.server().change(id, { secret: new SecretText('another') }, { ifMatch: after.etag })
    expect(await codeOf(bed.answer(seen))).toBe('answered')
  })
})
