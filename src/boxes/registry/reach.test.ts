import { describe, expect, it } from 'vitest'
import { EgressPolicy } from './egress.ts'

const url = (host: string) => new URL(`https://${host}/`)

describe('from a registry', () => {
  it.each([
    ['in public', 'ghcr.io', 'public', true],
    ['in public', 'ghcr.io', 'private', true],
    ['in public', 'ghcr.io', 'loopback', false],
    ['in public', 'ghcr.io', 'never', false],
    ['in public', 'cdn.test', 'public', true],
    ['in public', 'cdn.test', 'private', false],
    ['in public', 'cdn.test', 'loopback', false],
    ['in private', 'cdn.test', 'private', true],
    ['in private', 'cdn.test', 'loopback', false],
    ['in private', 'cdn.test', 'never', false],
  ] as const)('%s, %s may be %s: %s', (place, host, kind, want) => {
    const reach = new EgressPolicy('ghcr.io', [])
    reach.recordConnection(place === 'in public' ? 'public' : 'private', url('ghcr.io'))
    expect(reach.permits(kind, url(host))).toBe(want)
  })

  it.each([
    ['localhost:5000', true],
    ['registry.localhost', true],
    ['127.0.0.1:5000', true],
    ['[::1]:5000', true],
    ['localhost.:5000', true],
    ['localhost.test', false],
  ])('%s may be on this machine: %s', (host, want) => {
    expect(new EgressPolicy(host, []).permits('loopback', url(host))).toBe(want)
  })

  it('a host that the operator allows may be anywhere, and still is no metadata service', () => {
    const reach = new EgressPolicy('ghcr.io', ['tokens.test:8443'])
    expect(reach.permits('loopback', url('tokens.test:8443'))).toBe(true)
    expect(reach.permits('private', url('tokens.test:8443'))).toBe(true)
    expect(reach.permits('loopback', url('tokens.test'))).toBe(false)
    expect(reach.permits('never', url('tokens.test:8443'))).toBe(false)
  })

  it('where somebody else was found does not count', () => {
    const reach = new EgressPolicy('ghcr.io', [])
    reach.recordConnection('private', url('cdn.test'))
    expect(reach.permits('private', url('cdn.test'))).toBe(false)
  })

  it.each(['ghcr.io:443', 'GHCR.IO', 'ghcr.io.', 'ghcr.io.:443'])(
    'that redirects to itself as %s, it is the registry',
    (host) => expect(new EgressPolicy('ghcr.io', []).isRegistry(url(host))).toBe(true),
  )

  it('of Docker Hub its API is the registry', () => {
    expect(new EgressPolicy('docker.io', []).isRegistry(url('registry-1.docker.io'))).toBe(true)
  })
})
