import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { compactEtcd } from './control-plane.ts'

let stop = () => undefined as unknown
afterEach(() => stop())

async function etcd(refusal?: string): Promise<string> {
  const server = createServer((request, response) => {
    const isRefused = refusal !== undefined && request.url === '/v3/kv/compaction'
    response.statusCode = isRefused ? 400 : 200
    response.end(JSON.stringify(isRefused ? { message: refusal } : { header: { revision: '7' } }))
  })
  stop = () => server.close()
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

test('a revision that is compacted already is as good as one that is compacted now', async () => {
  expect(await compactEtcd(await etcd())).toBe(7)
  stop()
  expect(await compactEtcd(await etcd('etcdserver: mvcc: required revision has been compacted'))).toBe(7)
})

test('another refusal of etcd is an error', async () => {
  await expect(compactEtcd(await etcd('etcdserver: no leader'))).rejects.toThrow('no leader')
})
