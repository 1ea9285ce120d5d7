import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { createRandom } from '../../../src/lib/time.ts'
import { createHttpServer } from '../../../src/server/http/server.ts'
import { KEYS, ORGANIZATION, startServerBed } from '../../support/server-bed.ts'
import { createTestAuthority } from '../../support/tls.ts'
import { createPublishing } from './publishing.ts'
import { RestPublisher } from './rest-publisher.ts'

const ROUTE = { namespace: ORGANIZATION, type: 'environment.started' }
const KEY = { [ORGANIZATION]: KEYS.publisher }

const publishers: RestPublisher[] = []
afterEach(async () => {
  for (const publisher of publishers.splice(0)) await publisher.close()
})

function newPublisher(): RestPublisher {
  const publisher = new RestPublisher()
  publishers.push(publisher)
  return publisher
}

test('one event goes by itself, several as a batch, and their deliveries count', async () => {
  const bed = await startServerBed()
  const publisher = newPublisher()
  await publisher.connect([bed], KEY, 4)
  const one = await publisher.enter(ROUTE, ['{"n":0}'])
  const three = await publisher.enter(ROUTE, ['{"n":1}', '{"n":2}', '{"n":3}'])
  expect(three).toBe(3 * one)
  expect(bed.answered.map(({ status }) => status)).toEqual([202, 202])
  expect(bed.services.asked).toMatchObject([
    { operation: 'publish', of: { organization: ORGANIZATION } },
    {
      operation: 'publishBatch',
      of: { publications: Array.from({ length: 3 }, () => ({ type: ROUTE.type })) },
    },
  ])
})

test('requests go to the servers in turn', async () => {
  const beds = [await startServerBed(), await startServerBed(), await startServerBed()]
  const publisher = newPublisher()
  await publisher.connect(beds, KEY, 6)
  for (let n = 0; n < 7; n += 1) await publisher.enter(ROUTE, [`{"n":${n}}`])
  expect(beds.map(({ answered }) => answered.length)).toEqual([3, 2, 2])
})

test.for([
  { name: 'a token without the right to publish', key: KEYS.viewer },
  { name: 'an expired token', key: KEYS.expired },
  { name: 'the token of another organization', key: KEYS.otherOwner },
])('$name is an error, alone and in a batch', async ({ key }) => {
  const bed = await startServerBed()
  const publisher = newPublisher()
  await publisher.connect([bed], { [ORGANIZATION]: key }, 1)
  await expect(publisher.enter(ROUTE, ['{}'])).rejects.toThrow('answered with 40')
  await expect(publisher.enter(ROUTE, ['{}', '{}'])).rejects.toThrow('answered with 40')
})

test('a load of batches stamps each event, and counts events and not requests', async () => {
  const bed = await startServerBed()
  const publisher = newPublisher()
  await publisher.connect([bed], KEY, 2)
  const { publish, settled } = createPublishing(publisher.enter)
  const load = { run: 1, routes: [ROUTE], seconds: 0.3, bytes: 180, publishers: 2, window: 40, batch: 10 }
  const publishing = publish(load)
  const settling = setInterval(() => settled(1e6), 5)
  const published = await publishing.finally(() => clearInterval(settling))
  const asked = JSON.stringify(bed.services.asked)
  const numbers = [...asked.matchAll(/\\"n\\":(\d+)/g)].map(([, n]) => Number(n)).sort((a, b) => a - b)
  expect(published.refused).toBe(0)
  expect(published.events).toBe(bed.answered.length * 10)
  expect(numbers).toEqual(Array.from({ length: published.events }, (_, n) => n))
  expect(published.accepted.count).toBe(bed.answered.length)
})

test('a server with TLS is reached with its authority, and not without', async () => {
  const authority = createTestAuthority()
  const respond = '{"deliveries":7}'
  const server = createHttpServer((_request, response) => void response.writeHead(202).end(respond), {
    random: createRandom(),
    certificate: authority.issue(['127.0.0.1']),
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const baseUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}`
  const publisher = newPublisher()
  await publisher.connect([{ baseUrl, ca: authority.ca }], KEY, 2)
  expect(await publisher.enter(ROUTE, ['{}'])).toBe(7)
  await publisher.connect([{ baseUrl }], KEY, 2)
  await expect(publisher.enter(ROUTE, ['{}'])).rejects.toThrow('certificate')
  server.closeAllConnections()
  server.close()
})
