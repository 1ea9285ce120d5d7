import { describe, expect, it } from 'vitest'
import { checkTokenRealm } from './challenge.ts'

const ask = (realm: string, more: Partial<Parameters<typeof checkTokenRealm>[0]> = {}) => {
  const verdict = checkTokenRealm({
    realm,
    registry: 'registry.test:5000',
    apiHost: 'registry.test:5000',
    allowed: [],
    withLogin: true,
    ...more,
  })
  return verdict.ok ? 'may' : verdict.reason
}
const DOCKER = { registry: 'docker.io', apiHost: 'registry-1.docker.io' }
const ELSEWHERE = 'than the registry, and the cluster operator has not allowed that host'

const TABLE: readonly { given: Parameters<typeof ask>; want: string }[] = [
  { given: ['https://registry.test:5000/token'], want: 'may' },
  { given: ['https://REGISTRY.test:5000/token?a=b'], want: 'may' },
  { given: ['https://registry.test.:5000/token'], want: 'may' },
  { given: ['https://Registry.test.:443/token', { apiHost: 'registry.test' }], want: 'may' },
  { given: ['https://auth.test./token', { allowed: ['auth.test'] }], want: 'may' },
  { given: ['https://auth.test/token', { allowed: ['Auth.test.:443'] }], want: 'may' },
  { given: ['https://auth.docker.io.:443/token', DOCKER], want: 'may' },
  { given: ['https://registry.test..:5000/token'], want: ELSEWHERE },
  { given: ['http://registry.test:5000/token'], want: 'does not use HTTPS' },
  { given: ['https://registry.test/token'], want: ELSEWHERE },
  { given: ['https://registry.test:5001/token'], want: ELSEWHERE },
  { given: ['https://registry.test.evil.test:5000/token'], want: ELSEWHERE },
  { given: ['https://169.254.169.254/latest/meta-data'], want: ELSEWHERE },
  { given: ['https://auth.test/token', { allowed: ['auth.test'] }], want: 'may' },
  { given: ['https://auth.test:8443/token', { allowed: ['auth.test:8443'] }], want: 'may' },
  { given: ['https://auth.test:8443/token', { allowed: ['auth.test'] }], want: ELSEWHERE },
  { given: ['http://auth.test/token', { allowed: ['auth.test'] }], want: 'does not use HTTPS' },
  { given: ['https://auth.docker.io/token', DOCKER], want: 'may' },
  { given: ['https://auth.docker.io/token'], want: ELSEWHERE },
  { given: ['https://registry-1.docker.io/token', DOCKER], want: 'may' },
  { given: ['https://user@registry.test:5000/token'], want: 'contains a user name or password' },
  { given: ['https://registry.test:5000\\@evil.test/token'], want: 'is not valid' },
  { given: ['https://evil.test\\@registry.test:5000/'], want: 'is not valid' },
  { given: ['https://registry.test:5000/token#here'], want: 'contains a fragment' },
  { given: ['file:///etc/passwd'], want: 'does not use HTTPS' },
  { given: ['/token'], want: 'is not valid' },
  { given: [''], want: 'is not valid' },
  { given: ['https://registry.test:5000/\ttoken'], want: 'is not valid' },
  { given: [`https://registry.test:5000/${'a'.repeat(2048)}`], want: 'is not valid' },
  // Nobody's password goes there, but still no plain text.
  { given: ['https://anywhere.test/token', { withLogin: false }], want: 'may' },
  { given: ['http://anywhere.test/token', { withLogin: false }], want: 'does not use HTTPS' },
]

describe('a login', () => {
  for (const { given, want } of TABLE)
    it(`with the realm ${JSON.stringify(given)}: ${want}`, () => expect(ask(...given)).toContain(want))
})
