import { expect, test } from 'vitest'
import { ask, startServerBed } from '../../../test/support/server-bed.ts'

test('the document and its page need no key', async () => {
  const bed = await startServerBed()
  const document = await ask(bed, '/openapi.json')
  expect([document.status, document.headers.get('content-type')]).toEqual([200, 'application/json'])
  expect(document.json).toMatchObject({ openapi: '3.1.0' })
  const page = await ask(bed, '/docs')
  expect([page.status, page.headers.get('content-type')]).toEqual([200, 'text/html; charset=utf-8'])
  expect(bed.reviewed).toEqual([])
})

test('the page loads nothing from elsewhere, may not, and everything that it loads is there', async () => {
  const bed = await startServerBed()
  const page = await ask(bed, '/docs')
  const policy = page.headers.get('content-security-policy') ?? ''
  expect(policy).toMatch(/^default-src 'none'; script-src 'self';/)
  expect(policy).not.toMatch(/https?:|\*/)
  const sources = [...page.text.matchAll(/(?:src|href)="([^"]+)"/g)].map(([, source]) => source ?? '')
  expect(sources).toHaveLength(4)
  for (const source of sources) {
    expect(source).toMatch(/^docs\//)
    const asset = await ask(bed, `/${source}`)
    expect([source, asset.status]).toEqual([source, 200])
    expect(asset.headers.get('x-content-type-options')).toBe('nosniff')
    expect(asset.headers.get('content-type')).toMatch(/^(text\/(css|javascript)|image\/png)/)
  }
})

test('what changes nothing is all that the pages take', async () => {
  const bed = await startServerBed()
  for (const path of ['/docs', '/openapi.json'])
    for (const method of ['POST', 'OPTIONS', 'DELETE']) {
      const answer = await ask(bed, path, { method })
      expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
      expect(answer.json).toMatchObject({ code: 'method_not_allowed' })
    }
  expect((await ask(bed, '/docs', { method: 'HEAD' })).status).toBe(200)
  expect((await ask(bed, '/docs/..%2f..%2fpackage.json')).status).toBe(404)
})

test.each([
  { what: 'a range', headers: { range: 'bytes=0-1' } },
  { what: 'a range beyond its end', headers: { range: 'bytes=99999999-' } },
  { what: 'an ETag that it has not', headers: { 'if-match': '"abc"' } },
  {
    what: 'a time before its last change',
    headers: { 'if-unmodified-since': 'Thu, 01 Jan 1970 00:00:00 GMT' },
  },
])('a file that is asked for with $what comes whole', async ({ headers }) => {
  const bed = await startServerBed()
  const answer = await ask(bed, '/docs/swagger-ui-bundle.js', { headers })
  expect([answer.status, answer.headers.get('cache-control')]).toEqual([200, 'public, max-age=3600'])
  expect(Buffer.byteLength(answer.text)).toBe(Number(answer.headers.get('content-length')))
  expect(answer.text.length).toBeGreaterThan(1_000_000)
  expect(bed.logged).toEqual([])
})
