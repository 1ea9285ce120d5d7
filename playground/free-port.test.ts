import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test('gives ports that can be listened on, that no outgoing connection gets, and none twice', async () => {
  const ports = await Promise.all(Array.from({ length: 50 }, () => freePort()))

  expect(new Set(ports).size).toBe(ports.length)
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(10_000)
    expect(port).toBeLessThan(30_000)
    const server = createServer().listen(port, '127.0.0.1')
    await once(server, 'listening')
    expect((server.address() as AddressInfo).port).toBe(port)
    server.close()
  }
})
