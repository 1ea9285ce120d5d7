import { beforeEach, describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { ACME, CredentialsBed, conditionOf, LOCATION } from '../../test/support/credentials-bed.ts'
import { refusalOf } from '../../test/support/refusal-of.ts'
import { Steps } from '../../test/support/steps.ts'
import { API_VERSION } from '../apis/meta.ts'
import {
  PARAMETER_FINALIZER,
  PENDING_FIELDS_ANNOTATION,
  registryCredentials,
} from '../apis/registry-credential.ts'
import { CloudError } from '../credentials/cloud.ts'
import { hasPendingFields } from '../credentials/spec.ts'
import { ApiError } from '../kube/client.ts'
import { SecretText } from '../lib/redact.ts'
import type { CredentialChange, CredentialId } from './credential-resource.ts'

let bed: CredentialsBed
let id: CredentialId
beforeEach(async () => {
  bed = new CredentialsBed()
  await bed.connect()
  id = await bed.make()
})

const NEW = { secret: new SecretText('the next one') }
const change = (how: CredentialChange, more: { ifMatch?: string; idempotencyKey?: string } = {}) =>
  bed.answer(bed.server().change(id, how, more))
const versions = () => bed.cloud.held.map((held) => held.versions)
const pinned = () => bed.credentials()[0]?.status?.parameter?.version
const ref = () => ({ namespace: ACME, name: id.credentialId.slice('rc_'.length) })

describe('a new secret', () => {
  test('is a new version, which is pinned, and updatedAt moves', async () => {
    await bed.clock.elapse(5000)
    const { credential } = await change(NEW)
    expect([versions(), pinned()]).toEqual([[['s3cr3t-of-the-bot', 'the next one']], 2])
    expect(credential.updatedAt > credential.createdAt).toBe(true)
    expect((await bed.server().get(id)).credential).toEqual(credential)
  })

  test('comes with the user name that it is of', async () => {
    const { credential } = await change({ ...NEW, username: 'next', label: 'Next' })
    expect(credential).toMatchObject({ username: 'next', label: 'Next' })
    expect([bed.credentials()[0]?.spec.username, pinned()]).toEqual(['next', 2])
  })

  test('is a new parameter where the one before is gone', async () => {
    bed.cloud.held.splice(0)
    await change(NEW)
    expect([versions(), pinned()]).toEqual([[['the next one']], 1])
  })

  test('goes into the account that the settings have now, and nothing stays in the one before', async () => {
    await bed.connect({ region: 'us-east-1' })
    await change(NEW)
    expect(bed.cloud.held).toMatchObject([{ location: '222222222222/us-east-1', versions: ['the next one'] }])
    expect(bed.credentials()[0]?.status?.parameter).toMatchObject({ version: 1, region: 'us-east-1' })
  })

  test('waits until the controller has recorded what cannot be removed in the account before', async () => {
    await bed.connect({ region: 'us-east-1' })
    bed.cloud.failing.set('tagsOf', new CloudError('permissions', 'AccessDenied', 'no'))
    const refusal = await refusalOf(change(NEW))
    expect(refusal.code).toBe('overloaded')
    expect(refusal.detail).toContain('AccessDenied: no')
    expect(bed.cloud.held).toMatchObject([{ location: LOCATION, versions: ['s3cr3t-of-the-bot'] }])
    expect([bed.removals, bed.logged]).toEqual([
      ['failed'],
      ['failed to remove parameter from previous AWS account or region', expect.anything()],
    ])
  })

  test("waits, too, where what is in the account before is somebody else's by now, and says so", async () => {
    const [held] = bed.cloud.held
    if (held) held.tags = {}
    await bed.connect({ region: 'us-east-1' })
    const refusal = await refusalOf(change(NEW))
    expect(refusal.code).toBe('overloaded')
    expect(refusal.detail).toContain('its tags no longer match this organization')
    expect([bed.cloud.held.length, bed.logged.length]).toEqual([1, 2])
  })

  test('is not said to be stored while there is none', async () => {
    const status = {
      conditions: [conditionOf('True', 'Stored'), { ...conditionOf('True', 'Stored'), type: 'Stored' }],
    }
    await bed.store.patch(registryCredentials, ref(), { status }, { subresource: 'status' })
    bed.cloud.held.splice(0)
    let seen = 0
    bed.onPatch = () => {
      const [credential] = bed.credentials()
      if (credential?.status?.parameter) return
      const told = credential?.status?.conditions?.map(({ type, status: is, reason }) => [type, is, reason])
      expect(told).toEqual(
        expect.arrayContaining([
          ['Ready', 'False', 'Storing'],
          ['Reconciling', 'True', 'Storing'],
          ['Stored', 'False', 'Storing'],
        ]),
      )
      seen += 1
    }
    await change(NEW)
    expect(seen).toBeGreaterThan(0)
  })

  test('is for a credential that was made with kubectl as well, which is held before anything is stored', async () => {
    const spec = { type: 'token', label: 'Hand', registry: 'ghcr.io', username: 'bot' }
    const at = { namespace: ACME, name: 'by-hand' }
    const metadata = { ...at, finalizers: ['example.com/other'] }
    await bed.store.create(registryCredentials, { apiVersion: API_VERSION, metadata, spec })
    id = { organization: ACME, credentialId: 'rc_by-hand' }
    await change(NEW)
    const stored = await bed.store.get(registryCredentials, at)
    expect(stored.metadata.finalizers).toEqual(['example.com/other', PARAMETER_FINALIZER])
    expect(stored.status).toMatchObject({ parameter: { name: '/davit/acme/rc_by-hand', version: 1 } })
  })

  test("writes over nothing that is somebody else's", async () => {
    const [held] = bed.cloud.held
    if (held) held.tags = { ...held.tags, 'davit.dev/organization-uid': 'another' }
    expect(await codeOf(change(NEW))).toBe('cloud_account_not_ready')
    expect([versions(), pinned()]).toEqual([[['s3cr3t-of-the-bot']], 1])
  })

  test('is refused while the account is not ready, and nothing changes', async () => {
    await bed.connect({}, { conditions: [conditionOf('False', 'RoleRefused')] })
    const refusal = await refusalOf(change({ ...NEW, label: 'Next' }))
    expect(refusal).toMatchObject({ code: 'cloud_account_not_ready', condition: { reason: 'RoleRefused' } })
    expect([versions(), bed.credentials()[0]?.spec.label]).toEqual([[['s3cr3t-of-the-bot']], 'GitHub'])
  })

  test('that the cloud refuses changes nothing, not the user name either', async () => {
    bed.cloud.failing.set('replace', new CloudError('permissions', 'AccessDeniedException', 'no'))
    expect(await codeOf(change({ ...NEW, username: 'next' }))).toBe('cloud_account_not_ready')
    expect([versions(), pinned(), bed.credentials()[0]?.spec.username]).toEqual([
      [['s3cr3t-of-the-bot']],
      1,
      'bot',
    ])
  })

  test('of two that come at a time the later one is pinned, at one replica and at two', async () => {
    const server = bed.server()
    const two = [server, server, bed.server()].map((at) => at.change(id, NEW, {}))
    await bed.answer(Promise.all(two))
    expect([versions()[0]?.length, pinned()]).toEqual([4, 4])
  })
})

describe('a new secret with other fields, of which', () => {
  const BOTH = { ...NEW, username: 'next', label: 'Next' }
  const invalid = () => new ApiError('Invalid', 'a policy of the cluster', { status: 422 })
  const isFields = (patch: object) => 'spec' in patch
  const state = () => {
    const [credential] = bed.credentials()
    const { username, label } = credential?.spec ?? {}
    return { username, label, pinned: pinned(), awaits: credential && hasPendingFields(credential.metadata) }
  }
  const BEFORE = { username: 'bot', label: 'GitHub', pinned: 1 }

  test('the fields are refused is not put into the account at all', async () => {
    bed.refusePatch = (patch) => (isFields(patch) ? invalid() : undefined)
    expect(await codeOf(change(BOTH))).toBe('invalid')
    expect([versions(), state()]).toEqual([[['s3cr3t-of-the-bot']], { ...BEFORE, awaits: false }])
  })

  test('the credential is another one by then is not put into the account at all', async () => {
    const { etag } = await bed.server().get(id)
    bed.refusePatch = (_, how) =>
      how?.dryRun ? new ApiError('Conflict', 'changed', { status: 409 }) : undefined
    expect(await codeOf(change(BOTH, { ifMatch: etag }))).toBe('overloaded')
    expect(versions()).toEqual([['s3cr3t-of-the-bot']])
  })

  test.each([
    { what: 'refused', error: invalid(), want: 'invalid' },
    { what: 'not answered', error: new ApiError('Unavailable', 'no answer'), want: 'unavailable' },
  ])(
    'the fields are $what after the secret was put, are as they were, and so is the secret',
    async ({ error, want }) => {
      bed.refusePatch = (patch, how) => (isFields(patch) && !how?.dryRun ? error : undefined)
      expect(await codeOf(change(BOTH))).toBe(want)
      expect(versions()[0]).toEqual(['s3cr3t-of-the-bot', 'the next one'])
      // Nobody takes the version that is there.
      expect(state()).toEqual({ ...BEFORE, awaits: true })
      bed.refusePatch = () => undefined
      await change({ username: 'next' })
      expect(state()).toEqual({ ...BEFORE, username: 'next', awaits: true })
      await change(BOTH)
      expect(state()).toEqual({ username: 'next', label: 'Next', pinned: 3, awaits: false })
    },
  )

  test('somebody changes the credential after the secret was put, is refused, and neither is in force', async () => {
    const { etag } = await bed.server().get(id)
    bed.cloud.onWrite = async () => {
      await bed.store.patch(registryCredentials, ref(), {
        metadata: { generation: 2 },
        spec: { label: 'Ours' },
      })
    }
    expect(await codeOf(change(BOTH, { ifMatch: etag }))).toBe('precondition_failed')
    expect(versions()[0]).toHaveLength(2)
    expect(state()).toEqual({ ...BEFORE, label: 'Ours', awaits: true })
  })

  test('the status is not written, is told as stored and not in force, and the controller may take it', async () => {
    bed.refusePatch = (_, how) => (how?.subresource ? new ApiError('Unavailable', 'no answer') : undefined)
    expect(await codeOf(change(BOTH))).toBe('not_acknowledged')
    expect(state()).toEqual({ username: 'next', label: 'Next', pinned: 1, awaits: false })
  })

  test('nothing is awaited any more once the secret is given again alone', async () => {
    const annotations = { [PENDING_FIELDS_ANNOTATION]: 'username' }
    await bed.store.patch(registryCredentials, ref(), { metadata: { annotations } })
    await change(NEW)
    expect(state()).toEqual({ ...BEFORE, pinned: 2, awaits: false })
  })
})

test('a repeat of a change that came as far as its fields is not refused for the ETag that it changed itself', async () => {
  const { etag } = await bed.server().get(id)
  const both = { ...NEW, username: 'next' }
  const how = { ifMatch: etag, idempotencyKey: 'rotate-1' }
  bed.refusePatch = (_, patch) => (patch?.subresource ? new ApiError('Unavailable', 'no answer') : undefined)
  bed.onPatch = () => {
    const [credential] = bed.credentials()
    if (credential?.spec.username === 'next' && credential.metadata.generation === 1)
      void bed.store.patch(registryCredentials, ref(), { metadata: { generation: 2 } })
  }
  expect(await codeOf(change(both, how))).toBe('not_acknowledged')
  bed.refusePatch = () => undefined
  await change(both, how)
  expect([versions()[0]?.length, pinned()]).toEqual([2, 2])
  expect(await codeOf(change(both, { ifMatch: etag }))).toBe('precondition_failed')
})

test('a change without a key takes away the mark of the one before, which would be taken for done', async () => {
  const mark = () => bed.credentials()[0]?.metadata.annotations?.['davit.dev/secret-request']
  await change(NEW, { idempotencyKey: 'rotate-1' })
  expect(mark()).toMatch(/^[0-9a-z]{26} 1$/)
  await change(NEW)
  expect([mark(), pinned()]).toEqual([undefined, 3])
})

test('a request that ended half way is not taken for another one', async () => {
  // It has written a version and recorded nothing; then comes another request, which ends before it has written.
  bed.cloud.held[0]?.versions.push('of another request')
  await bed.clock.elapse(1000)
  const steps = new Steps()
  const key = { idempotencyKey: 'rotate-1' }
  // Looks, mark, owner, and there it ends.
  steps.failAt(7, 'dies before')
  await bed.answer(bed.server(steps).change(id, NEW, key), steps)
  expect([steps.calls.at(-1), versions()]).toEqual(['replace', [['s3cr3t-of-the-bot', 'of another request']]])
  await change(NEW, key)
  expect([versions()[0]?.at(-1), pinned()]).toEqual(['the next one', 3])
})
