import { describe, expect, test } from 'vitest'
import type { BakedService, BakeStatus } from '../../apis/bake.ts'
import { type RegistryCredential, registryCredential } from '../../apis/registry-credential.ts'
import { type CurrentConditionInput, currentCondition } from './conditions.ts'

type Given = { generation?: number; version?: number }

function credential(name: string, { generation = 1, version = 3 }: Given = {}): [string, RegistryCredential] {
  const place = { region: 'eu-west-1', account: '123456789012', roleArn: 'r' }
  const parameter = { name: `/davit/acme/rc_${name}`, version, ...place }
  const raw = {
    metadata: { name, namespace: 'acme', uid: 'u', resourceVersion: '1', generation },
    spec: { type: 'token', label: 'x', registry: 'ghcr.io', username: 'bot' },
    status: { observedGeneration: generation, parameter },
  }
  return [name, registryCredential.parse(raw)]
}

function service(name: string, id: string): BakedService {
  const used = { id, parameterVersion: 3, generation: 1, why: 'x' }
  return { name, image: 'ghcr.io/acme/api:1', credential: used }
}

const BAKED: BakeStatus = {
  state: 'succeeded',
  number: 1,
  attempts: 1,
  generation: 1,
  credentialState: 'c',
  services: [service('api', 'rc_ghcr'), { name: 'db', image: 'docker.io/library/postgres:17' }],
}

function current(view: Partial<CurrentConditionInput> = {}) {
  const found = currentCondition({
    bake: BAKED,
    generation: 1,
    credentialState: 'c',
    names: ['ghcr'],
    credentials: new Map([credential('ghcr')]),
    ...view,
  })
  return `${found.status} ${found.reason}: ${found.message}`
}

const REBAKE =
  'Request another bake by setting the annotation davit.dev/rebake-requested-at to the current time. Then copy the new credentials file to the machines that run the box.'

describe('a box', () => {
  test('is current with the credentials that it was baked with', () => {
    expect(current()).toMatch(/^True UpToDate: /)
  })

  test('is behind where a secret was replaced, and both versions are named', () => {
    const credentials = new Map([credential('ghcr', { version: 4 })])
    expect(current({ credentials })).toBe(
      `False SecretReplaced: The box was baked with version 3 of rc_ghcr's secret, but the current version is 4. ${REBAKE}`,
    )
  })

  test('is behind where a secret has a version again that is lower', () => {
    expect(current({ credentials: new Map([credential('ghcr', { version: 1 })]) })).toContain(
      'current version is 1',
    )
  })

  test('is behind where a credential was changed otherwise', () => {
    expect(current({ credentials: new Map([credential('ghcr', { generation: 2 })]) })).toBe(
      `False CredentialChanged: The credential rc_ghcr has changed since the bake. ${REBAKE}`,
    )
  })

  test('is behind where a credential was made again with the same numbers', () => {
    expect(current({ credentialState: 'other' })).toMatch(
      /^False CredentialChanged: A credential was deleted/,
    )
  })

  test('is not behind by what the credentials were before another spec, or by versions that are not known', () => {
    expect(current({ credentialState: 'other', generation: 2 })).toMatch(/^True/)
    const bake: BakeStatus = { ...BAKED, state: 'failed', lastSucceeded: { services: BAKED.services } }
    expect(current({ bake, credentialState: 'other' })).toMatch(/^True/)
    const [name, known] = credential('ghcr')
    const unknown = { ...known, status: { observedGeneration: 1 } }
    expect(current({ credentials: new Map([[name, unknown]]) })).toMatch(/^True/)
    const used = { id: 'rc_ghcr', why: 'x' }
    const services = [{ name: 'api', image: 'ghcr.io/acme/api:1', credential: used }]
    expect(current({ bake: { ...BAKED, services } })).toMatch(/^True/)
  })

  test('is behind where a credential is gone', () => {
    expect(current({ credentials: new Map() })).toMatch(
      /^False CredentialGone: The credential rc_ghcr no longer exists/,
    )
  })

  test('is that of the last bake that succeeded, whatever came after it', () => {
    const { services } = BAKED
    const bake: BakeStatus = { ...BAKED, state: 'failed', services: [], lastSucceeded: { services } }
    expect(current({ bake })).toMatch(/^True/)
    expect(current({ bake, credentials: new Map([credential('ghcr', { version: 4 })]) })).toMatch(/^False/)
  })

  test('is not there before the first bake has succeeded', () => {
    expect(current({ bake: undefined })).toMatch(/^Unknown NotBaked/)
    expect(current({ bake: { ...BAKED, state: 'running' } })).toMatch(/^Unknown NotBaked/)
  })

  test('says nothing of a credential that the template does not name any more', () => {
    expect(current({ names: [], credentials: new Map(), generation: 2 })).toMatch(/^True/)
  })

  test('names three of many that are behind', () => {
    const names = ['a', 'b', 'c', 'd', 'e']
    const services = names.map((name) => service(name, `rc_${name}`))
    const credentials = new Map(names.map((name) => credential(name, { version: 4 })))
    const said = current({ bake: { ...BAKED, services }, names, credentials })
    expect(said).toContain("rc_c's secret, but the current")
    expect(said).not.toContain('rc_d')
    expect(said).toContain(' 2 other credentials are affected. ')
    const four = current({ bake: { ...BAKED, services: services.slice(0, 4) }, names, credentials })
    expect(four).toContain(' 1 other credential is affected. ')
  })
})
