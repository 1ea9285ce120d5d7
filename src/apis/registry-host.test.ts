import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { registryCredentialSpec } from './registry-credential.ts'
import { parseRegistryHost } from './registry-host.ts'

const L63 = 'a'.repeat(63)
const N253 = `${L63}.${L63}.${L63}.${'a'.repeat(61)}`

/** The hosts of the vectors of distribution/reference, and what surrounds them. */
const TAKEN: [given: string, want: string][] = [
  ['ghcr.io', 'ghcr.io'],
  ['test.com', 'test.com'],
  ['test.com:8080', 'test.com:8080'],
  ['Foo.com', 'foo.com'],
  ['GHCR.IO:443', 'ghcr.io'],
  ['ghcr.io.:443', 'ghcr.io'],
  ['ghcr.io:80', 'ghcr.io:80'],
  ['ghcr.io:4430', 'ghcr.io:4430'],
  ['localhost:443', 'localhost'],
  ['LocalHost.:443', 'localhost'],
  ['127.0.0.1:443', '127.0.0.1'],
  ['[2001:DB8:0:0::1]:443', '[2001:db8::1]'],
  ['XN--7o8h.com.:443', 'xn--7o8h.com'],
  ['123456789012.dkr.ecr.eu-west-1.amazonaws.com:443', '123456789012.dkr.ecr.eu-west-1.amazonaws.com'],
  // Without its port it would be part of a path.
  ['registry:443', 'registry:443'],
  ['Registry.:443', 'registry:443'],
  ['a.b.c.d.e', 'a.b.c.d.e'],
  ['a-b.c-d', 'a-b.c-d'],
  ['a--b.example', 'a--b.example'],
  ['sub-dom1.foo.com', 'sub-dom1.foo.com'],
  ['127.0.0.1', '127.0.0.1'],
  ['127.0.0.1:5000', '127.0.0.1:5000'],
  ['1.example', '1.example'],
  ['localhost', 'localhost'],
  ['localhost:5000', 'localhost:5000'],
  ['LOCALHOST', 'localhost'],
  ['aa:5000', 'aa:5000'],
  ['registry:1', 'registry:1'],
  ['registry:65535', 'registry:65535'],
  ['xn--n3h.com', 'xn--n3h.com'],
  ['xn--7o8h.com', 'xn--7o8h.com'],
  ['XN--7o8h.com', 'xn--7o8h.com'],
  ['[2001:db8::1]', '[2001:db8::1]'],
  ['[2001:db8:1:2:3:4:5:6]', '[2001:db8:1:2:3:4:5:6]'],
  ['[2001:DB8:0:0::1]:5000', '[2001:db8::1]:5000'],
  ['[::1]:5000', '[::1]:5000'],
  ['ghcr.io.', 'ghcr.io'],
  ['ghcr.io.:5000', 'ghcr.io:5000'],
  [`${L63}.com`, `${L63}.com`],
  [N253, N253],
  [`${N253}:65535`, `${N253}:65535`],
  ['docker.io', 'docker.io'],
  ['index.docker.io', 'docker.io'],
  ['registry-1.docker.io', 'docker.io'],
  ['www.docker.io', 'docker.io'],
  ['Index.Docker.IO.', 'docker.io'],
  ['docker.io:443', 'docker.io'],
  ['index.docker.io:443', 'docker.io'],
  ['Registry-1.Docker.IO.:443', 'docker.io'],
  ['registry.hub.docker.com', 'docker.io'],
  ['registry.hub.docker.com:443', 'docker.io'],
  // Another port is another server.
  ['index.docker.io:5000', 'index.docker.io:5000'],
  ['docker.io.example.com', 'docker.io.example.com'],
  ['notdocker.io', 'notdocker.io'],
]

const REFUSED: [given: string, problem: string][] = [
  ['', 'empty'],
  ['https://ghcr.io', 'scheme'],
  ['http://ghcr.io', 'scheme'],
  ['oci://ghcr.io', 'scheme'],
  ['ghcr.io/', 'path'],
  ['ghcr.io/acme', 'path'],
  ['ghcr.io/acme/api:1.4', 'path'],
  ['ghcr.io\\acme', 'path'],
  ['me@ghcr.io', 'user'],
  ['me:password@ghcr.io', 'user'],
  ['ghcr.io@sha256:abc', 'digest'],
  ['ghcr.io?x=1', 'query'],
  ['ghcr.io#x', 'fragment'],
  ['hub.docker.com', 'must be docker.io'],
  ['HUB.docker.com.:443', 'must be docker.io'],
  ['ghcr.io:latest', 'tag'],
  ['ghcr.io:', 'tag'],
  ['ghcr.io:1.4', 'tag'],
  ['ghcr.io:0', 'port number from 1'],
  ['ghcr.io:65536', 'port number from 1'],
  ['ghcr.io:99999', 'port number from 1'],
  ['ghcr.io:0443', 'port number from 1'],
  ['ghcr.io:+443', 'tag'],
  ['ghcr.io:443:443', 'brackets'],
  ['aa', 'a dot or a port'],
  ['REGISTRY', 'a dot or a port'],
  ['a'.repeat(64), 'between dots'],
  ['0123456789abcdef'.repeat(4), 'between dots'],
  [`${'0123456789abcdef'.repeat(4)}:5000`, 'between dots'],
  [`${L63}a.com`, 'between dots'],
  [`${N253}a`, '253'],
  ['.com', 'single dots'],
  ['a..com', 'single dots'],
  ['ghcr.io..', 'single dots'],
  ['.', 'single dots'],
  ['-foo.com', 'begin and end with a letter or digit'],
  ['foo-.com', 'begin and end with a letter or digit'],
  ['foo.com-', 'begin and end with a letter or digit'],
  ['foo_bar.com', 'letters, digits and dashes'],
  ['foo%2f.com', 'letters, digits and dashes'],
  ['*.example.com', 'letters, digits and dashes'],
  [' ghcr.io', 'whitespace'],
  ['ghcr.io ', 'whitespace'],
  ['ghcr.io\n', 'whitespace'],
  ['ghcr.io\u00a0', 'whitespace'],
  ['ghcr\u0000.io', 'control'],
  ['b\u00fccher.example', 'use xn--bcher-kva.example'],
  ['B\u00dcCHER.example', 'use xn--bcher-kva.example'],
  ['\uff47hcr.io', 'use ghcr.io'],
  ['gh\u0441r.io', 'use xn--ghr-5ed.io'],
  ['ghcr\u3002io', 'use ghcr.io'],
  ['\u{1f600}\ufdd0.io', 'cannot be converted'],
  ['127.1', 'four numbers'],
  ['1.2.3.999', 'four numbers'],
  ['0x7f.0.0.1', 'four numbers'],
  ['127.0.0.01', 'four numbers'],
  ['foo.0x1', 'four numbers'],
  ['2001:db8::1', 'brackets'],
  ['[2001:db8::1', 'brackets'],
  ['[2001:db8::1]5000', 'brackets'],
  ['[fe80::1%eth0]', 'zone'],
  ['[::ffff:127.0.0.1]', 'IPv4'],
  ['[::g]', 'valid IPv6'],
  ['[]', 'valid IPv6'],
  ['[::1]:0', 'port number from 1'],
  ['[::1]:tag', 'tag'],
]

describe('a host', () => {
  test.for(TAKEN)('%s becomes %s', ([given, want]) => {
    expect(parseRegistryHost(given)).toEqual({ host: want })
  })

  test.for(REFUSED)('%j is refused: %s', ([given, problem]) => {
    expect(parseRegistryHost(given)).toEqual({ problem: expect.stringContaining(problem) })
  })

  test('is canonical once it was made so, and the API server takes it', () => {
    const piece = fc.constantFrom(
      'a',
      'B',
      '0',
      '-',
      '.',
      ':',
      '[',
      ']',
      '::',
      '5000',
      'docker.io',
      'xn--',
      '\u00fc',
      '@',
      '/',
    )
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const { host } = parseRegistryHost(pieces.join(''))
        if (host === undefined) return
        expect(parseRegistryHost(host)).toEqual({ host })
        const spec = { type: 'token', label: 'a', registry: host, username: 'a' }
        expect(registryCredentialSpec.safeParse(spec).success, host).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })

  test('never throws, whatever is given', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        const { host, problem } = parseRegistryHost(text)
        expect((host === undefined) !== (problem === undefined)).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })
})
