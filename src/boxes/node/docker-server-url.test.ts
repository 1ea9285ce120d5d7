import { describe, expect, it } from 'vitest'
import { fc } from '../../../test/support/fast-check.ts'
import { parseServerUrl, toServerUrl } from './docker-helper.ts'

const HOSTS = [
  ['ghcr.io', 'ghcr.io'],
  ['GHCR.io', 'ghcr.io'],
  ['registry.example.com:5000', 'registry.example.com:5000'],
  ['https://ghcr.io', 'ghcr.io'],
  ['HTTPS://ghcr.io/', 'ghcr.io'],
  ['https://registry.example.com:5000/v2/', 'registry.example.com:5000'],
  ['https://registry.example.com/v1', 'registry.example.com'],
  ['https://ghcr.io:443/v2/', 'ghcr.io'],
  ['ghcr.io:443', 'ghcr.io'],
  ['https://GHCR.io.', 'ghcr.io'],
  ['localhost:5000', 'localhost:5000'],
  ['[2001:db8::1]:5000', '[2001:db8::1]:5000'],
] as const

const DOCKER_HUB = [
  'docker.io',
  'index.docker.io',
  'registry-1.docker.io',
  'www.docker.io',
  'docker.io:443',
  'https://registry.hub.docker.com/v2/',
  'https://index.docker.io:443/v1/',
  'https://index.docker.io/v1/',
  'https://index.docker.io/v1',
  'https://registry-1.docker.io/v2/',
]

/** Docker's own client asks for these two of every helper. */
const PATHS = [
  'https://index.docker.io/v1/access-token',
  'https://index.docker.io/v1/refresh-token',
  'ghcr.io/acme',
  'ghcr.io/v2/acme',
  'ghcr.io//',
]

const REFUSED = [
  ['', 'must not be empty'],
  ['http://ghcr.io', 'must not use http://'],
  ['ftp://ghcr.io', 'must not include a tag'],
  ['https://user:secret@ghcr.io', 'must not include a user name or a digest'],
  ['ghcr', 'must contain a dot or a port'],
  ['ghcr.io\nevil.example', 'must not contain whitespace'],
  ['ghcr.io:99999', 'must have a port number from 1 to 65535'],
  [`${'a'.repeat(2048)}.example`, 'must be at most 2048 characters'],
] as const

describe('what docker asks a helper for', () => {
  it.each(HOSTS)('%s is the host %s', (given, host) => {
    expect(parseServerUrl(given)).toEqual({ host })
  })

  it.each(DOCKER_HUB)('%s is Docker Hub', (given) => {
    expect(parseServerUrl(given)).toEqual({ host: 'docker.io' })
  })

  it.each(PATHS)('%s is something behind a host', (path) => {
    expect(parseServerUrl(path)).toEqual({ path })
  })

  it.each(REFUSED)('%j is refused', (given, reason) => {
    expect(parseServerUrl(given).problem).toContain(reason)
  })

  it('is understood in the form in which hosts are listed', () => {
    const label = fc.stringMatching(/^[a-z0-9]{1,10}$/)
    const host = fc.tuple(label, fc.constantFrom('.example.com', '.io:5000', ':443', '.docker.io'))
    fc.assert(
      fc.property(host, ([name, end]) => {
        const parsed = parseServerUrl(name + end)
        fc.pre(parsed.host !== undefined)
        expect(parseServerUrl(toServerUrl(parsed.host ?? ''))).toEqual(parsed)
      }),
    )
    expect(parseServerUrl(toServerUrl('docker.io'))).toEqual({ host: 'docker.io' })
  })

  it('never ends in anything but an answer', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary' }), (text) => {
        expect(Object.keys(parseServerUrl(text))).toHaveLength(1)
      }),
    )
  })
})
