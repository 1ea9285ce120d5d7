/** Credentials with kubectl and Git (interface §2.1, §2.6; settled, "Credentials, settings, bakes"), on the real API server. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { configMaps, secrets } from '../../src/apis/core-kinds.ts'
import {
  REGISTRY_SECRET_TYPE,
  type RegistryCredential,
  registryCredentials,
} from '../../src/apis/registry-credential.ts'
import { secretsSettingsResource } from '../../src/apis/secrets-settings.ts'
import type { Account } from '../../test-support/aws/account.ts'
import { REGION } from '../support/aws/organization-account.ts'
import { ACCOUNT, isReady, reasonOf, SecretsBed } from '../support/secrets-bed.ts'
import { until } from '../support/until.ts'

let bed: SecretsBed
let account: Account

beforeAll(async () => {
  bed = await SecretsBed.start('credentials-kubectl')
  ;({ account } = await bed.connect())
})

afterAll(async () => {
  await bed?.stop()
})

const store = () => account.parameters(REGION)
const nameOf = (credential: string) => `/davit/${bed.organization}/rc_${credential}`

describe('connecting', () => {
  test('proves that the role writes and does not read, and asks for the external id', async () => {
    const { status } = await bed.settingsWhen(isReady)
    expect(status?.account).toBe(ACCOUNT)
    expect(status?.externalId).toMatch(/^davit-[0-9a-z]{32}$/)
    expect(Object.fromEntries(status?.conditions?.map(({ type, status: is }) => [type, is]) ?? [])).toEqual({
      Ready: 'True',
      Reachable: 'True',
      WriteOnly: 'True',
      ExternalIdEnforced: 'True',
    })
    expect(store().list()).toEqual([])
  })
})

describe('a secret that is handed over', () => {
  test('is stored, and the Secret is deleted', async () => {
    await bed.handOver('ghcr-handover', 'the-value-1')
    await bed.credential('ghcr', { secretRef: { name: 'ghcr-handover' } })
    const { status } = await bed.credentialWhen('ghcr', isReady)
    expect(status?.parameter).toMatchObject({
      name: nameOf('ghcr'),
      version: 1,
      region: REGION,
      account: ACCOUNT,
    })
    expect(store().value(nameOf('ghcr'))).toBe('the-value-1')
    await until(
      async () => !(await bed.hasSecret('ghcr-handover')) || undefined,
      () => 'the Secret is still there',
    )
  })

  test('again is a new version, and the status pins it', async () => {
    await bed.handOver('ghcr-handover', 'the-value-2')
    const is = (seen: RegistryCredential) =>
      seen.status?.parameter?.version === 2 && reasonOf(seen, 'Stored') === 'Stored'
    expect(isReady(await bed.credentialWhen('ghcr', is))).toBe(true)
    expect(await bed.hasSecret('ghcr-handover')).toBe(false)
    expect(store().value(nameOf('ghcr'))).toBe('the-value-2')
  })

  test('and retained stays, and its change is a new version', async () => {
    await bed.handOver('kept', 'kept-1', { retain: true })
    await bed.credential('retained', { secretRef: { name: 'kept' } })
    await bed.credentialWhen('retained', isReady)
    expect(await bed.hasSecret('kept')).toBe(true)
    const data = { secret: Buffer.from('kept-2').toString('base64') }
    await bed.davit.api.patch(secrets, { namespace: bed.organization, name: 'kept' }, { data })
    await bed.credentialWhen('retained', (seen) => seen.status?.parameter?.version === 2)
    expect(store().value(nameOf('retained'))).toBe('kept-2')
    expect(await bed.hasSecret('kept')).toBe(true)
  })

  test('for two is stored for the older, and the other says who that is', async () => {
    await bed.credential('shared', { secretRef: { name: 'ghcr-handover' } })
    const shared = await bed.credentialWhen('shared', (seen) => reasonOf(seen, 'Ready') === 'SecretShared')
    expect(JSON.stringify(shared.status?.conditions)).toContain('the older credential ghcr')
  })

  test('that cannot be stored leaves the one before: Ready, and not Stored', async () => {
    await bed.handOver('ghcr-handover', 'two\nlines')
    const refused = await bed.credentialWhen('ghcr', (seen) => reasonOf(seen, 'Stored') === 'InvalidSecret')
    expect([isReady(refused), refused.status?.parameter?.version]).toEqual([true, 2])
  })

  test('and retained is no new version for another label, and that is seen', async () => {
    const ref = { namespace: bed.organization, name: 'kept' }
    const { metadata } = await bed.davit.api.patch(secrets, ref, { metadata: { labels: { color: 'red' } } })
    const seen = await bed.credentialWhen(
      'retained',
      ({ status }) => status?.handover?.resourceVersion === metadata.resourceVersion,
    )
    expect(seen.status?.parameter?.version).toBe(2)
  })

  test('and retained is no new version if the Secret is created again', async () => {
    for (let turn = 0; turn < 2; turn += 1) {
      await bed.davit.api.delete(secrets, { namespace: bed.organization, name: 'kept' })
      await bed.handOver('kept', 'kept-2', { retain: true })
      const { metadata } = await bed.davit.api.get(secrets, { namespace: bed.organization, name: 'kept' })
      const seen = await bed.credentialWhen(
        'retained',
        ({ status }) => status?.handover?.uid === metadata.uid,
      )
      expect(seen.status?.parameter?.version).toBe(2)
    }
  })

  test('by a controller stays, and a condition names the owner', async () => {
    const { metadata: owner } = await bed.davit.api.create(configMaps, {
      metadata: { namespace: bed.organization, name: 'ghcr-external' },
    })
    await bed.davit.api.create(secrets, {
      metadata: {
        namespace: bed.organization,
        name: 'owned',
        ownerReferences: [
          { apiVersion: 'v1', kind: 'ConfigMap', name: 'ghcr-external', uid: owner.uid, controller: true },
        ],
      },
      type: REGISTRY_SECRET_TYPE,
      data: { secret: Buffer.from('owned-1').toString('base64') },
    })
    await bed.credential('owned', { secretRef: { name: 'owned' } })
    const seen = await bed.credentialWhen('owned', isReady)
    expect(seen.status?.conditions?.find(({ type }) => type === 'InputSecretKept')).toMatchObject({
      status: 'True',
      reason: 'OwnedByController',
      message: expect.stringMatching(/owned by ConfigMap ghcr-external.*davit\.dev\/retain: "true"/s),
    })
    expect(await bed.hasSecret('owned')).toBe(true)
    expect(store().value(nameOf('owned'))).toBe('owned-1')
  })

  test('of another type is refused, and stays', async () => {
    await bed.handOver('opaque', 'not-meant-for-davit', { type: 'Opaque' })
    await bed.credential('refused', { secretRef: { name: 'opaque' } })
    const refused = await bed.credentialWhen(
      'refused',
      (seen) => reasonOf(seen, 'Ready') === 'InvalidSecretType',
    )
    expect(JSON.stringify(refused)).not.toContain('not-meant-for-davit')
    expect(await bed.hasSecret('opaque')).toBe(true)
    expect(store().get(nameOf('refused'))).toBeUndefined()
  })
})

describe('deleting', () => {
  test('a credential removes its parameter', async () => {
    await bed.davit.api.delete(registryCredentials, { namespace: bed.organization, name: 'ghcr' })
    await bed.gone('ghcr')
    expect(store().get(nameOf('ghcr'))).toBeUndefined()
  })

  test('the settings leaves nothing in the account', async () => {
    await bed.davit.api.delete(secretsSettingsResource, { namespace: bed.organization, name: 'default' })
    await bed.credentialWhen('retained', (seen) => reasonOf(seen, 'Ready') !== 'Stored')
    await until(
      async () => store().list().length === 0 || undefined,
      () => JSON.stringify(store().list()),
    )
  })
})
