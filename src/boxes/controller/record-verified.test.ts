import { beforeEach, describe, expect, test } from 'vitest'
import { AT, CREDENTIAL, SUCCESS, TemplateBed } from '../../../test/support/template-bed.ts'
import { registryCredentials } from '../../apis/registry-credential.ts'
import { ApiError } from '../../kube/client.ts'

let bed: TemplateBed

beforeEach(async () => {
  bed = await TemplateBed.make()
})

describe('what a credential is told', () => {
  test('is told again where somebody else was faster, and keeps what that one wrote', async () => {
    await bed.pass()
    await bed.endJob(SUCCESS)
    bed.store.once('patch', 'registrycredentials', async () => {
      await bed.store.patch(
        registryCredentials,
        CREDENTIAL,
        { status: { updatedAt: AT } },
        { subresource: 'status' },
      )
    })
    await bed.pass()
    const of = await bed.credentialStatus()
    expect(of).toMatchObject({ updatedAt: AT, verified: { ok: true } })
  })

  test('is nothing where it is gone, and the bake ends all the same', async () => {
    await bed.pass()
    await bed.endJob(SUCCESS)
    await bed.store.delete(registryCredentials, CREDENTIAL)
    await bed.pass()
    const after = await bed.status()
    expect(after?.bake?.state).toBe('succeeded')
    expect(after?.conditions?.find(({ type }) => type === 'Ready')?.reason).toBe('CredentialUnknown')
  })

  test('is nothing where the API server takes nothing for it, and the bake ends all the same', async () => {
    await bed.pass()
    await bed.endJob(SUCCESS)
    bed.store.once('patch', 'registrycredentials', () => {
      throw new ApiError('Invalid', 'it does not fit its schema')
    })
    await bed.pass()
    expect((await bed.status())?.bake?.state).toBe('succeeded')
    expect((await bed.credentialStatus())?.verified).toBeUndefined()
  })

  test('is nothing where another one has its name', async () => {
    await bed.pass()
    await bed.endJob(SUCCESS)
    bed.clock.advance(1000)
    const { metadata: _before, ...rest } = await bed.store.get(registryCredentials, CREDENTIAL)
    await bed.store.delete(registryCredentials, CREDENTIAL)
    await bed.store.create(registryCredentials, { ...rest, metadata: CREDENTIAL })
    await bed.pass()
    expect((await bed.status())?.bake?.state).toBe('succeeded')
    expect((await bed.credentialStatus())?.verified).toBeUndefined()
  })

  test('replaces what it was told before, its code included', async () => {
    const before = {
      at: '2026-01-30T12:00:00.000Z',
      ok: false,
      code: 'no_pull_permission',
      repository: 'a',
      template: 'b',
    }
    await bed.store.patch(
      registryCredentials,
      CREDENTIAL,
      { status: { verified: before } },
      { subresource: 'status' },
    )
    await bed.pass()
    await bed.endJob(SUCCESS)
    await bed.pass()
    const of = await bed.credentialStatus()
    expect(of?.verified).not.toHaveProperty('code')
    expect(of?.verified).toMatchObject({ at: AT, template: 'shop' })
  })
})
