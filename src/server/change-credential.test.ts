import { beforeEach, describe, expect, test } from 'vitest'
import { codeOf } from '../../test/support/code-of.ts'
import { ACME, CredentialsBed, ecr, token } from '../../test/support/credentials-bed.ts'
import { refusalOf } from '../../test/support/refusal-of.ts'
import { registryCredentials } from '../apis/registry-credential.ts'
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

describe('the fields', () => {
  test('change alone, without an account', async () => {
    bed = new CredentialsBed()
    id = await bed.make(ecr())
    await bed.clock.elapse(5000)
    const { credential } = await change({ label: 'Ours' })
    expect(credential).toMatchObject({ label: 'Ours', type: 'ecr' })
    expect(credential.updatedAt > credential.createdAt).toBe(true)
  })

  test('that are as they were write nothing', async () => {
    const before = bed.store.version
    const { credential } = await change({ label: 'GitHub', username: 'bot' })
    expect([bed.store.version, credential.updatedAt]).toEqual([before, credential.createdAt])
  })

  test.each([
    { of: 'token', given: { username: 'a:b' }, want: '/username' },
    { of: 'token', given: { secret: new SecretText(' x') }, want: '/secret' },
    { of: 'ecr', given: { username: 'bot' }, want: '/username' },
    { of: 'ecr', given: NEW, want: '/secret' },
  ])('of the type $of are refused at $want', async ({ of, given, want }) => {
    if (of === 'ecr') id = await bed.make(ecr())
    const refusal = await refusalOf(change(given))
    expect([refusal.code, refusal.errors?.map(({ pointer }) => pointer)]).toEqual(['invalid', [want]])
  })

  test('are changed only where the ETag is the one that was seen', async () => {
    expect(await codeOf(change({ label: 'Next' }, { ifMatch: '"another"' }))).toBe('precondition_failed')
    const { etag } = await bed.server().get(id)
    const weak = await refusalOf(change({ label: 'Next' }, { ifMatch: `W/${etag}` }))
    expect([weak.code, weak.detail]).toEqual(['precondition_failed', expect.stringContaining('a weak ETag')])
    expect(await codeOf(change({ label: 'Next' }, { ifMatch: etag }))).toBe('answered')
  })
})

describe('managed elsewhere', () => {
  const apply = () => {
    const annotations = { 'meta.helm.sh/release-name': 'ours' }
    return bed.store.patch(registryCredentials, ref(), { metadata: { annotations } })
  }

  test('fields are refused with who manages them, and the secret is taken all the same', async () => {
    await apply()
    const refusal = await refusalOf(change({ ...NEW, label: 'Next' }))
    expect([refusal.code, versions()]).toEqual(['managed_elsewhere', [['s3cr3t-of-the-bot']]])
    expect(refusal.detail).toBe(
      'The spec is managed by Helm. Change `label` at its source instead. Through the REST API, you can change only `secret`.',
    )
    await change({ ...NEW, label: 'GitHub' })
    expect(pinned()).toBe(2)
  })

  test('the credential is not deleted, and its secret stays', async () => {
    await apply()
    const refusal = await refusalOf(bed.answer(bed.server().remove(id, {})))
    expect([refusal.code, versions()]).toEqual(['managed_elsewhere', [['s3cr3t-of-the-bot']]])
    expect(refusal.detail).toBe(
      'The spec is managed by Helm, which may recreate the object. Delete it where it is defined instead.',
    )
    expect(bed.credentials()).toHaveLength(1)
    expect(bed.credentials()[0]?.metadata.deletionTimestamp).toBeUndefined()
  })

  test('a secret that comes from a Secret of the cluster is changed there', async () => {
    const spec = { secretRef: { name: 'ghcr-handover' } }
    await bed.store.patch(registryCredentials, ref(), { spec })
    const refusal = await refusalOf(change(NEW))
    expect(refusal.code).toBe('managed_elsewhere')
    expect(refusal.detail).toContain('ghcr-handover')
    expect(await codeOf(change({ label: 'Next' }))).toBe('answered')
  })
})

describe('under an Idempotency-Key', () => {
  test('is done once, and answered with what is', async () => {
    const key = { idempotencyKey: 'rotate-1' }
    const first = await change(NEW, key)
    const again = await change({ secret: new SecretText('yet another') }, key)
    expect(again).toEqual({ ...first, replayed: true })
    expect(versions()).toEqual([['s3cr3t-of-the-bot', 'the next one']])
    expect(await codeOf(change({ ...NEW, label: 'Next' }, key))).toBe('idempotency_conflict')
    expect(await codeOf(change({ label: 'Next' }, key))).toBe('idempotency_conflict')
  })
})

describe('one that is deleted', () => {
  test('is gone at once, also while something holds it, and its parameter is left to the controller', async () => {
    const server = bed.server()
    await bed.answer(server.remove(id, {}))
    expect(bed.credentials()[0]?.metadata.deletionTimestamp).toBeDefined()
    expect(await server.list(ACME, { limit: 10 })).toEqual({ registryCredentials: [] })
    expect(await codeOf(server.get(id))).toBe('not_found')
    expect(await codeOf(bed.answer(server.change(id, NEW, {})))).toBe('not_found')
    expect(await codeOf(bed.answer(server.remove(id, {})))).toBe('not_found')
    expect(bed.cloud.held).toHaveLength(1)
  })

  test('is deleted only where the ETag is the one that was seen', async () => {
    expect(await codeOf(bed.answer(bed.server().remove(id, { ifMatch: '"x"' })))).toBe('precondition_failed')
    const { etag: ifMatch } = await bed.server().get(id)
    expect(await codeOf(bed.answer(bed.server().remove(id, { ifMatch })))).toBe('answered')
  })

  test('while its new secret was stored leaves no parameter behind', async () => {
    const server = bed.server()
    let letGo: () => void = () => undefined
    bed.cloud.hold = new Promise<void>((resolve) => {
      letGo = resolve
    })
    bed.cloud.held.splice(0)
    const changing = codeOf(server.change(id, NEW, {}))
    await bed.clock.elapse(100)
    await bed.store.patch(registryCredentials, ref(), { metadata: { finalizers: [] } })
    await bed.store.delete(registryCredentials, ref())
    letGo()
    expect(await bed.answer(changing)).toBe('not_found')
    expect(bed.cloud.held).toEqual([])
  })
})

test('what is no id of a credential, or one of another organization, is not there', async () => {
  const server = bed.server()
  for (const credentialId of ['whe_billing', 'rc_', 'rc_../other', 'rc_none'])
    expect(await codeOf(server.get({ organization: ACME, credentialId }))).toBe('not_found')
  expect(await codeOf(server.get({ ...id, organization: 'umbrella' }))).toBe('not_found')
  expect(await codeOf(bed.answer(server.create('umbrella', token(), {})))).toBe('not_found')
})

test('a list goes by name through pages, and is refused while the watch is behind', async () => {
  for (let count = 0; count < 4; count += 1) {
    await bed.clock.elapse(1000)
    await bed.make(ecr())
  }
  const server = bed.server()
  const all = await server.list(ACME, { limit: 200 })
  const ids = all.registryCredentials.map((credential) => credential.id)
  expect([ids.length, ids]).toEqual([5, ids.toSorted()])
  const paged: string[] = []
  let after: string | undefined
  do {
    const page = await server.list(ACME, { limit: 2, after })
    paged.push(...page.registryCredentials.map((credential) => credential.id))
    after = page.next
  } while (after !== undefined)
  expect(paged).toEqual(ids)
  bed.behind = 'the server is still loading registry credentials'
  expect(await codeOf(server.list(ACME, { limit: 10 }))).toBe('overloaded')
})
