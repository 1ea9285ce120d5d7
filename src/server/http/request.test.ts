import { expect, test } from 'vitest'
import type { Problem } from './problems.ts'
import { readRawUrl } from './request.ts'

function codeOf(url: string): string {
  try {
    readRawUrl(url)
    return 'ok'
  } catch (error) {
    return (error as Problem).code
  }
}

test('path and query come apart as they were sent', () => {
  expect(readRawUrl('/organizations/acme/webhooks?limit=1&cursor=a%20b')).toEqual({
    path: '/organizations/acme/webhooks',
    search: 'limit=1&cursor=a%20b',
  })
})

test.each([
  { url: '/a/%zz', want: 'bad_request' },
  { url: '/a/%', want: 'bad_request' },
  { url: '/a/%E0%A4%A', want: 'bad_request' },
  { url: '/a/%ff', want: 'bad_request' },
  { url: '/a/%00', want: 'bad_request' },
  { url: '/a/%0d%0aset-cookie:x', want: 'bad_request' },
  { url: '/a/%7f', want: 'bad_request' },
  { url: '/a?b=%zz', want: 'bad_request' },
  { url: '/a?b=%00', want: 'bad_request' },
  { url: '/a/\u00e9', want: 'bad_request' },
  { url: 'http://other.example/a', want: 'bad_request' },
  { url: '*', want: 'bad_request' },
  { url: '/a/../b', want: 'not_found' },
  { url: '/a/./b', want: 'not_found' },
  { url: '/a/%2e%2e/b', want: 'not_found' },
  { url: '/a/.%2E/b', want: 'not_found' },
  { url: '/a/%2f/b', want: 'not_found' },
  { url: '/a%2Fb', want: 'not_found' },
  { url: '/a%5cb', want: 'not_found' },
  { url: '/a\\b', want: 'not_found' },
  { url: '//a', want: 'not_found' },
  { url: '/a//b', want: 'not_found' },
  { url: '/a/...', want: 'ok' },
  { url: '/a?b=../%2f', want: 'ok' },
  { url: '/a/%252f', want: 'ok' },
  { url: `/${'a'.repeat(2_047)}`, want: 'ok' },
  { url: `/${'a'.repeat(2_048)}`, want: 'uri_too_long' },
])('$url: $want', ({ url, want }) => {
  expect(codeOf(url)).toBe(want)
})
