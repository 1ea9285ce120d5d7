import { describe, expect, test } from 'vitest'
import type { RegistryCredential } from '../../apis/registry-credential.ts'
import { credentialState } from './conditions.ts'

const PARAMETER = { name: '/davit/acme/rc_a', region: 'eu-west-1', account: '123456789012', roleArn: 'r' }

function credential(
  change: { uid?: string; generation?: number; version?: number; status?: object } = {},
): RegistryCredential {
  const { uid = 'u-1', generation = 1, version = 1, status = {} } = change
  return {
    metadata: { name: 'a', uid, resourceVersion: '1', generation },
    spec: { type: 'token', label: 'a', registry: 'ghcr.io', username: 'bot' },
    status: { observedGeneration: generation, parameter: { ...PARAMETER, version }, ...status },
  }
}

const stateOf = (of: RegistryCredential | undefined) => credentialState(['a'], new Map(of ? [['a', of]] : []))

describe('the state of credentials', () => {
  test.for([
    ['the spec', credential({ generation: 2 })],
    ['the version of the secret', credential({ version: 2 })],
    ['the credential, made again under its name', credential({ uid: 'u-2' })],
    ['nothing of it', undefined],
  ] as const)('is another one with another one of %s', ([, other]) => {
    expect(stateOf(other)).not.toBe(stateOf(credential()))
  })

  test('is the same whatever else its status says', () => {
    const verified = { at: '2026-01-31T12:00:00.000Z', ok: false, repository: 'ghcr.io/a', template: 'shop' }
    const seen = credential({ status: { verified, conditions: [], updatedAt: '2026-01-31T12:00:00.000Z' } })
    expect(stateOf(seen)).toBe(stateOf(credential()))
  })

  test('does not depend on the order of the services', () => {
    const held = new Map([['a', credential()]])
    expect(credentialState(['a', 'b', 'a'], held)).toBe(credentialState(['b', 'a'], held))
  })
})
