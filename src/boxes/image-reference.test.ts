import { describe, expect, test } from 'vitest'
import { fc } from '../../test/support/fast-check.ts'
import { imageName, parseImageReference } from './image-reference.ts'

const F64 = `sha256:${'f'.repeat(64)}`
const HUB = 'docker.io'
const HEX = '1a3f5e7d9c1b3a5f7e9d1c3b5a7f9e1d3c5b7a9f1e3d5d7c9b1a3f5e7d9c1b3a'

type Want = [registry: string, repository: string, tag?: string | undefined, digest?: string]

/** What the reference implementation in Go takes (distribution/reference), and how it reads it. */
const TAKEN: [given: string, want: Want][] = [
  ['test_com', [HUB, 'library/test_com']],
  ['test.com:tag', [HUB, 'library/test.com', 'tag']],
  ['test.com:5000', [HUB, 'library/test.com', '5000']],
  ['test.com/repo:tag', ['test.com', 'repo', 'tag']],
  ['test:5000/repo', ['test:5000', 'repo']],
  ['test:5000/repo:tag', ['test:5000', 'repo', 'tag']],
  [`test:5000/repo@${F64}`, ['test:5000', 'repo', undefined, F64]],
  [`test:5000/repo:tag@${F64}`, ['test:5000', 'repo', 'tag', F64]],
  ['lowercase:Uppercase', [HUB, 'library/lowercase', 'Uppercase']],
  ['sub-dom1.foo.com/bar/baz/quux', ['sub-dom1.foo.com', 'bar/baz/quux']],
  ['sub-dom1.foo.com/bar/baz/quux:some-long-tag', ['sub-dom1.foo.com', 'bar/baz/quux', 'some-long-tag']],
  [
    'b.gcr.io/test.example.com/my-app:test.example.com',
    ['b.gcr.io', 'test.example.com/my-app', 'test.example.com'],
  ],
  ['xn--n3h.com/myimage:xn--n3h.com', ['xn--n3h.com', 'myimage', 'xn--n3h.com']],
  ['foo_bar.com:8080', [HUB, 'library/foo_bar.com', '8080']],
  ['foo/foo_bar.com:8080', [HUB, 'foo/foo_bar.com', '8080']],
  ['192.168.1.1', [HUB, 'library/192.168.1.1']],
  ['192.168.1.1:5000', [HUB, 'library/192.168.1.1', '5000']],
  ['192.168.1.1/repo', ['192.168.1.1', 'repo']],
  ['192.168.1.1:5000/repo:5050', ['192.168.1.1:5000', 'repo', '5050']],
  ['[2001:db8::1]/repo', ['[2001:db8::1]', 'repo']],
  ['[2001:db8:1:2:3:4:5:6]/repo:tag', ['[2001:db8:1:2:3:4:5:6]', 'repo', 'tag']],
  ['[2001:db8::1]:5000/repo', ['[2001:db8::1]:5000', 'repo']],
  [`[2001:db8::1]:5000/repo:tag@${F64}`, ['[2001:db8::1]:5000', 'repo', 'tag', F64]],
  ['[::1]:5000/repo', ['[::1]:5000', 'repo']],
  ['docker/docker', [HUB, 'docker/docker']],
  ['debian', [HUB, 'library/debian']],
  ['docker.io/debian', [HUB, 'library/debian']],
  ['docker.io/library/debian', [HUB, 'library/debian']],
  ['docker.io/library/foo/bar', [HUB, 'library/foo/bar']],
  ['index.docker.io/docker/docker', [HUB, 'docker/docker']],
  ['index.docker.io/debian', [HUB, 'library/debian']],
  ['docker.io:443/debian', [HUB, 'library/debian']],
  ['Registry-1.docker.io.:443/acme/api:1', [HUB, 'acme/api', '1']],
  ['test.com:443/repo', ['test.com', 'repo']],
  ['test:443/repo', ['test:443', 'repo']],
  ['[2001:DB8::1]:443/repo', ['[2001:db8::1]', 'repo']],
  ['127.0.0.1:5000/library/debian', ['127.0.0.1:5000', 'library/debian']],
  ['[fc00::1]:5000/docker/docker', ['[fc00::1]:5000', 'docker/docker']],
  [
    'thisisthesongthatneverendsitgoesonandonandonthisisthesongthatnev',
    [HUB, 'library/thisisthesongthatneverendsitgoesonandonandonthisisthesongthatnev'],
  ],
  [`docker.io/${HEX}`, [HUB, `library/${HEX}`]],
  [HEX.slice(0, 63), [HUB, `library/${HEX.slice(0, 63)}`]],
  ['docker---rules/docker', [HUB, 'docker---rules/docker']],
  ['jess/t', [HUB, 'jess/t']],
  ['dock__er/docker', [HUB, 'dock__er/docker']],
  ['docker/migrator', [HUB, 'docker/migrator']],
  ['test_com/foo', [HUB, 'test_com/foo']],
  ['test-com:8080/foo', ['test-com:8080', 'foo']],
  ['xn--n3h.com:18080/foo', ['xn--n3h.com:18080', 'foo']],
  [`busybox:latest@${F64}`, [HUB, 'library/busybox', 'latest', F64]],
  ['localhost/app', ['localhost', 'app']],
]

/** What it refuses as well. */
const REFUSED: [given: string, words: string][] = [
  ['', 'must not be empty'],
  [':justtag', 'must have a repository'],
  [`@${F64}`, 'must have a repository'],
  ['repo@sha256:ffffffffffffffffffffffffffffffffff', 'must have a digest'],
  [`validname@invaliddigest:${'f'.repeat(64)}`, 'must have a digest'],
  ['Uppercase:tag', 'must have a lowercase repository name, but Uppercase contains uppercase letters'],
  ['test:5000/Uppercase/lowercase:tag', 'lowercase repository name, but Uppercase contains'],
  [`${'a/'.repeat(128)}a:tag`, 'at most 255 characters'],
  ['aa/asdf$$^/aa', 'asdf$$^ is not'],
  ['[2001:db8::1]', 'must have a repository after the host'],
  ['[2001:db8::1]:5000', 'must have a repository after the host'],
  ['[fe80::1%eth0]:5000/repo', 'without a zone'],
  ['[fe80::1%@invalidzone]:5000/repo', 'must have a digest'],
  ['[2001:db8:3:4::192.0.2.33]:5000/debian', 'must not be an IPv4 address'],
  ['fc00::1:5000/debian', 'must not contain more than one colon'],
  ['https://github.com/docker/docker', 'must not have a scheme'],
  ['docker/Docker', 'lowercase repository name, but Docker contains'],
  ['docker.io/docker/Docker', 'lowercase repository name, but Docker contains'],
  ['-docker', '-docker is not'],
  ['-docker.io/docker/docker', 'contains the host -docker.io, but a host'],
  ['docker///docker', 'consecutive slashes'],
  ['docker/', 'trailing or consecutive slashes'],
  ['docker-/docker', 'docker- is not'],
  ['____/____', '____ is not'],
  ['_docker/_docker', '_docker is not'],
  ['dock..er/docker', 'contains the host dock..er'],
  ['x/dock_.er', 'dock_.er is not'],
  ['x/dock-.er', 'dock-.er is not'],
  [HEX, 'not just an image ID'],
]

/** Where it is more lenient. */
const REFUSED_HERE: [given: string, words: string][] = [
  // To it the first part is a host, since no repository may be called so.
  [
    'Foo/bar',
    'must have a lowercase repository name, but Foo contains uppercase letters. Only a tag, or a host',
  ],
  ['Uppercase/lowercase:tag', 'lowercase repository name, but Uppercase contains'],
  ['test:99999/repo', 'must have a port number from 1 to 65535'],
  ['test.com:tag/repo', 'only a port number may follow the colon'],
  // No registry names a manifest by it.
  [`test.com/repo@sha512:${'f'.repeat(128)}`, 'must have a digest of the form sha256:'],
  [`test.com/repo@SHA256:${'f'.repeat(64)}`, 'must have a digest of the form sha256:'],
  [`test.com/repo@sha256:${'F'.repeat(64)}`, 'must have a digest of the form sha256:'],
  ['test.com/repo: tag', 'whitespace'],
  ['test.com/repo\n', 'control characters'],
  ['test.com/repo:', 'must have a tag after the colon'],
  ['test.com/repo:a:b', 'must have at most one tag'],
  [`test.com/repo:${'a'.repeat(129)}`, '1 to 128'],
  ['test.com/repo:-a', '1 to 128'],
  ['b\u00fccher.example/repo', 'use xn--bcher-kva.example'],
  ['me@test.com/repo', 'must have a digest'],
]

describe('a reference', () => {
  test.for(TAKEN)('%s', ([given, [registry, repository, tag, digest]]) => {
    const { reference, problem } = parseImageReference(given)
    expect(problem).toBeUndefined()
    const shown = tag ?? (digest === undefined ? 'latest' : undefined)
    expect(reference).toEqual({
      registry,
      repository,
      ...(shown ? { tag: shown } : {}),
      ...(digest ? { digest } : {}),
    })
  })

  test.for([...REFUSED, ...REFUSED_HERE])('is refused: %s', ([given, words]) => {
    const { reference, problem } = parseImageReference(given)
    expect(reference).toBeUndefined()
    expect(problem).toContain(words)
  })

  test('has its host in the form in which hosts are compared', () => {
    const hosts = [
      'GHCR.IO/a',
      'ghcr.io./a',
      'registry-1.docker.io/a',
      'www.docker.io/a',
      '[2001:DB8:0::1]:5000/a',
    ]
    expect(hosts.map((host) => parseImageReference(host).reference?.registry)).toEqual([
      'ghcr.io',
      'ghcr.io',
      'docker.io',
      'docker.io',
      '[2001:db8::1]:5000',
    ])
  })

  test('is pulled by its digest where it has one, else by its tag', () => {
    const names = ['postgres', 'ghcr.io/acme/api:1.4', `ghcr.io/acme/api:1.4@${F64}`].map((given) => {
      const { reference } = parseImageReference(given)
      return reference && imageName(reference)
    })
    expect(names).toEqual([
      'docker.io/library/postgres:latest',
      'ghcr.io/acme/api:1.4',
      `ghcr.io/acme/api@${F64}`,
    ])
  })
})

const PIECES = [
  'a',
  'B',
  '0',
  '-',
  '.',
  '_',
  '__',
  ':',
  '/',
  '@',
  'ghcr.io',
  'docker.io',
  '[::1]',
  '5000',
  'localhost',
  F64,
  ' ',
  '\u0000',
]

describe('whatever is given', () => {
  test('what is taken is the same when it is read again', () => {
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 8 }), (pieces) => {
        const { reference } = parseImageReference(pieces.join(''))
        if (!reference) return
        const { tag, digest, ...place } = reference
        const again = parseImageReference(imageName(reference)).reference
        expect(again).toEqual({ ...place, ...(digest ? { digest } : { tag }) })
      }),
      { numRuns: 5000 },
    )
  })

  test('it is read, or refused in words', () => {
    fc.assert(
      fc.property(fc.string({ unit: 'binary', maxLength: 40 }), (text) => {
        const { reference, problem } = parseImageReference(text)
        expect((reference === undefined) !== (problem === undefined)).toBe(true)
      }),
      { numRuns: 3000 },
    )
  })
})
