import type { Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { FakeClock } from '../../../test/support/fake-clock.ts'
import { onRequest, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import type { SendOutcome } from './send-failures.ts'
import { createWebhookSender } from './sender.ts'

const DEADLINE_MS = 20_000

/** Its timers come late, as those of a process that stood still. */
class LateClock extends FakeClock {
  lateMs = 0

  override monotonic(): number {
    return super.monotonic() + this.lateMs
  }
}

const toClose: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close()
})

/** @param act at the receiver, when it has the request */
async function send(act: (socket: Socket, clock: LateClock) => void): Promise<SendOutcome> {
  const clock = new LateClock()
  const receiver = await startRawReceiver((socket) => onRequest(socket, (one) => act(one, clock)))
  const sender = createWebhookSender({ networks: { allowed: ['127.0.0.0/8', '::1/128'] }, clock })
  toClose.push(
    () => receiver.close(),
    () => sender.close(),
  )
  const headers = { 'content-type': 'application/json' }
  return await sender.send({ url: receiver.url, headers, body: Buffer.from('{}'), deadlineMs: DEADLINE_MS })
}

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'

test('an answer that came while the process stood still counts, although the deadline has passed', async () => {
  const outcome = await send((socket, clock) => {
    socket.write(OK, () => {
      clock.lateMs = 10_000
      clock.advance(DEADLINE_MS)
    })
  })
  expect(outcome).toMatchObject({ kind: 'response', code: 200 })
})

test('where none came the attempt has failed all the same', async () => {
  const outcome = await send((_, clock) => {
    clock.lateMs = 10_000
    clock.advance(DEADLINE_MS)
    clock.advance(1000)
  })
  expect(outcome).toMatchObject({ kind: 'failure', class: 'timeout' })
})

test('an answer after the deadline of a process that runs does not count', async () => {
  const outcome = await send((socket, clock) => {
    socket.write(OK, () => clock.advance(DEADLINE_MS))
  })
  expect(outcome).toMatchObject({ kind: 'failure', class: 'timeout' })
})
