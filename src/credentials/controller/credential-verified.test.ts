import { describe, expect, test } from 'vitest'
import type { BakedService } from '../../apis/bake.ts'
import type { CredentialVerification, RegistryCredential } from '../../apis/registry-credential.ts'
import { isNewer, verificationsOf, verifiedFinding } from './conditions.ts'

const AT = '2026-01-31T12:00:00.000Z'
const LATER = '2026-01-31T12:00:05.000Z'

const NOW = Date.parse(LATER)

const service = (name: string, id: string, image = 'ghcr.io/acme/api:1.4'): BakedService => ({
  name,
  image,
  credential: { id, parameterVersion: 3, generation: 2, why: 'because' },
})

describe('what a bake has seen', () => {
  test('is told to the credential that was used, with its version and the repository', () => {
    const services = [service('api', 'rc_a'), { name: 'db', image: 'docker.io/library/postgres:17' }]
    const results = [
      { name: 'api', verified: { at: AT, ok: true } },
      { name: 'db', verified: { at: AT, ok: true } },
    ]
    expect(verificationsOf({ template: 'shop', services }, results, NOW)).toEqual(
      new Map([
        [
          'rc_a',
          {
            at: AT,
            ok: true,
            repository: 'ghcr.io/acme/api',
            template: 'shop',
            parameterVersion: 3,
            generation: 2,
          },
        ],
      ]),
    )
  })

  test('of two services with one credential is the newest, and a refusal where both are of one moment', () => {
    const services = [service('a', 'rc_a'), service('b', 'rc_a')]
    const refused = { at: AT, ok: false, code: 'no_pull_permission' as const }
    const of = (first: object, second: object) =>
      verificationsOf(
        { template: 'shop', services },
        [
          { name: 'a', verified: first as never },
          { name: 'b', verified: second as never },
        ],
        NOW,
      ).get('rc_a')?.ok
    expect(of(refused, { at: LATER, ok: true })).toBe(true)
    expect(of({ at: LATER, ok: true }, refused)).toBe(true)
    expect(of(refused, { at: AT, ok: true })).toBe(false)
    expect(of({ at: AT, ok: true }, refused)).toBe(false)
  })

  test.for([
    ['ghcr.io/acme/api:1.4', 'ghcr.io/acme/api'],
    ['registry:5000/api:1', 'registry:5000/api'],
    [`registry:5000/api@sha256:${'0'.repeat(64)}`, 'registry:5000/api'],
    ['[::1]:5000/api:latest', '[::1]:5000/api'],
  ] as const)('of %s is the repository %s', ([image, repository]) => {
    const seen = verificationsOf(
      { template: 'shop', services: [service('a', 'rc_a', image)] },
      [{ name: 'a', verified: { at: AT, ok: true } }],
      NOW,
    )
    expect(seen.get('rc_a')?.repository).toBe(repository)
  })

  test('is of no time that has not come yet, whatever the clock of the node says', () => {
    const seen = verificationsOf(
      { template: 'shop', services: [service('a', 'rc_a')] },
      [{ name: 'a', verified: { at: '9999-12-31T23:59:59.000Z', ok: true } }],
      NOW,
    )
    expect(seen.get('rc_a')?.at).toBe(LATER)
  })

  test('is told once, and never over something newer', () => {
    const seen: CredentialVerification = { at: AT, ok: true, repository: 'a', template: 'b' }
    expect(isNewer(seen, undefined)).toBe(true)
    expect(isNewer(seen, seen)).toBe(false)
    expect(isNewer(seen, { ...seen, at: LATER })).toBe(false)
    expect(isNewer({ ...seen, at: LATER }, seen)).toBe(true)
  })
})

describe('what was seen of a newer credential', () => {
  const held: CredentialVerification = {
    at: LATER,
    ok: false,
    repository: 'a',
    template: 'b',
    parameterVersion: 3,
    generation: 2,
  }

  test.for([
    ['its secret is newer', { parameterVersion: 4 }, true],
    ['its spec is newer', { generation: 3 }, true],
    ['its spec is newer, and its parameter was made anew', { generation: 3, parameterVersion: 1 }, true],
    ['nothing of it is newer', {}, false],
  ] as const)('is told by a node whose clock is behind where %s', ([, change, want]) => {
    expect(isNewer({ ...held, at: AT, ...change }, held)).toBe(want)
  })

  test.for([{ parameterVersion: 2 }, { generation: 1 }])(
    'is not undone by a clock that is ahead: %o',
    (change) => {
      expect(isNewer({ ...held, ...change, at: '2026-02-01T00:00:00.000Z' }, held)).toBe(false)
    },
  )
})

const SEEN: CredentialVerification = {
  at: AT,
  ok: true,
  repository: 'ghcr.io/acme/api',
  template: 'shop',
  parameterVersion: 3,
  generation: 2,
}

function finding(seen: Partial<CredentialVerification> | undefined, version = 3) {
  const parameter = { name: 'p', version, region: 'r', account: '123456789012', roleArn: 'a' }
  const metadata: RegistryCredential['metadata'] = {
    name: 'a',
    uid: 'u',
    resourceVersion: '1',
    generation: 2,
  }
  const verified = seen && { ...SEEN, ...seen }
  return verifiedFinding({
    metadata,
    status: { observedGeneration: 2, parameter, ...(verified ? { verified } : {}) },
  })
}

describe('the condition Verified', () => {
  test.for([
    ['nobody has asked', undefined, 'Unknown NotChecked'],
    ['it was taken', {}, 'True Pulled'],
    ['the password was wrong', { ok: false, code: 'wrong_credentials' }, 'False WrongCredentials'],
    ['it may not pull', { ok: false, code: 'no_pull_permission' }, 'False NoPullPermission'],
    ['it could not be read', { ok: false, code: 'secret_unreadable' }, 'Unknown SecretUnreadable'],
    ['the registry did not answer', { ok: false, code: 'unreachable' }, 'Unknown Unreachable'],
    ['there may be no such image', { ok: false, code: 'not_found_or_private' }, 'Unknown NotFoundOrPrivate'],
    ['nothing is known', { ok: false }, 'Unknown NoAnswer'],
    ['its spec has changed since', { generation: 1 }, 'Unknown ChangedSince'],
    ['its secret has changed since', { parameterVersion: 2 }, 'Unknown ChangedSince'],
  ] as const)('where %s', ([, seen, want]) => {
    const { status, reason } = finding(seen)
    expect(`${status} ${reason}`).toBe(want)
  })

  test('blames no registry where the box could not read the secret', () => {
    const { message } = finding({ ok: false, code: 'secret_unreadable' })
    expect(message).toContain('it did not contact the registry')
    expect(message).not.toContain('refused')
  })

  test('says when, for what, and by whom', () => {
    expect(finding({}).message).toBe(
      `The registry accepted the credential for ghcr.io/acme/api (bake of template shop, ${AT}).`,
    )
  })
})
