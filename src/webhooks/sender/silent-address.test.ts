/** Where packets to an address are dropped: neither an answer nor a refusal comes. */
import { afterEach, expect, test, vi } from 'vitest'
import { type Dialled, watchDialling } from '../../../test/support/dialled.ts'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { type RawReceiver, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { silence } from '../../../test/support/silent-address.ts'
import { createWebhookSender } from './sender.ts'

const SILENT = '127.0.0.6'
const DEADLINE_MS = 20_000

const clock = new FakeClock()
const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const closable of toClose.splice(0).reverse()) await closable.close()
})

/** A receiver, and on its port an address that says nothing, the first one of the name. */
async function start(): Promise<{
  receiver: RawReceiver
  dialled: Dialled
  send(addresses: string[]): Promise<unknown>
}> {
  const receiver = await startRawReceiver((socket) =>
    socket.on('data', () => socket.end('HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n')),
  )
  toClose.push(receiver, await silence(SILENT, receiver.port))
  const dialled = watchDialling()
  toClose.push({ close: async () => dialled.stop() })
  const send = (addresses: string[]) => {
    const none = async () => await Promise.reject(Object.assign(new Error('no data'), { code: 'ENODATA' }))
    const nameServer = { resolve4: async () => addresses, resolve6: none }
    const sender = createWebhookSender({ networks: { allowed: ['127.0.0.0/8'] }, clock, nameServer })
    toClose.push(sender)
    return sender.send({
      url: `http://hooks.example:${receiver.port}/`,
      headers: {},
      body: Buffer.from('{}'),
      deadlineMs: DEADLINE_MS,
    })
  }
  return { receiver, dialled, send }
}

test('the next address of its name is tried after a while, in the same attempt', async () => {
  const { dialled, send } = await start()
  expect(await send([SILENT, '127.0.0.1'])).toMatchObject({ kind: 'response', code: 200 })
  expect(dialled.addresses).toEqual([SILENT, '127.0.0.1'])
})

test('an attempt ends at its deadline where there is no other', async () => {
  const { dialled, send, receiver } = await start()
  const running = send([SILENT])
  await vi.waitUntil(() => dialled.addresses.length > 0)
  clock.advance(DEADLINE_MS)
  expect(await running).toMatchObject({ class: 'timeout', error: 'no response within 20 s' })
  expect(dialled.addresses).toEqual([SILENT])
  expect(receiver.connections()).toBe(0)
})
