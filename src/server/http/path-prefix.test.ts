import { once } from 'node:events'
import { createServer, request as forward } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { ask, KEYS, ORGANIZATION, startServerBed } from '../../../test/support/server-bed.ts'

const ORG = `/organizations/${ORGANIZATION}`
const key = KEYS.owner

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup()
})

/** A proxy that takes a prefix off each path, and knows nothing else. */
async function startProxy(port: number, prefix: string): Promise<{ baseUrl: string }> {
  const proxy = createServer((incoming, outgoing) => {
    const { url = '', method, headers } = incoming
    if (!url.startsWith(`${prefix}/`)) {
      outgoing.writeHead(404).end()
      return
    }
    const path = url.slice(prefix.length)
    const forwarded = forward({ host: '127.0.0.1', port, path, method, headers }, (answer) => {
      outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
      answer.pipe(outgoing)
    })
    incoming.pipe(forwarded)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  cleanups.push(async () => {
    proxy.closeAllConnections()
    await new Promise((resolve) => proxy.close(resolve))
  })
  return { baseUrl: `http://127.0.0.1:${(proxy.address() as AddressInfo).port}` }
}

test.each([['/davit'], ['/apis/v1/hooks'], ['']])(
  'behind the prefix "%s", what is sent out leads back through it',
  async (prefix) => {
    const bed = await startServerBed()
    const proxy = await startProxy(bed.port, prefix)
    const post = async (path: string, body: object) =>
      await ask(proxy, `${prefix}${ORG}/${path}`, { method: 'POST', key, body: JSON.stringify(body) })
    const hook = await post('webhooks', { url: 'https://example.com/hooks', eventTypes: ['*'] })
    const credential = await post('registry-credentials', {
      type: 'ecr',
      label: 'Our images',
      registry: '123456789012.dkr.ecr.eu-west-1.amazonaws.com',
    })
    expect([hook.location, credential.location]).toEqual([
      `${prefix}${ORG}/webhooks/whe_made`,
      `${prefix}${ORG}/registry-credentials/rc_made`,
    ])
    for (const { location } of [hook, credential]) {
      await ask(proxy, location, { key })
      const id = location.split('/').at(-1)
      expect(JSON.stringify(bed.services.asked.at(-1))).toContain(id)
    }
    const document = `${proxy.baseUrl}${prefix}/openapi.json`
    const { servers } = (await (await fetch(document)).json()) as { servers: { url: string }[] }
    const [server] = servers.map(({ url }) => new URL(url, document).href.replace(/\/$/, ''))
    expect(servers).toHaveLength(1)
    expect(server).toBe(`${proxy.baseUrl}${prefix}`)
    const page = await ask(proxy, `${prefix}/docs`)
    for (const [, source = ''] of page.text.matchAll(/(?:src|href)="([^"]+)"/g)) {
      const { status } = await fetch(new URL(source, `${proxy.baseUrl}${prefix}/docs`))
      expect([source, status]).toEqual([source, 200])
    }
  },
)

test('nothing that is sent out begins at the root of the host', async () => {
  const bed = await startServerBed()
  const { text } = await ask(bed, '/openapi.json')
  const { paths: _paths, ...rest } = JSON.parse(text) as Record<string, unknown>
  expect(JSON.stringify(rest)).not.toMatch(/"(?:url|href|location)":"\//i)
  const page = await ask(bed, '/docs')
  const start = await ask(bed, '/docs/start.js')
  expect(page.text + start.text).not.toMatch(/(?:src|href|url)[=:]\s*["']\//)
})
