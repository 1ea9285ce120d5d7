import { connect, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { onRequest, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { type ConnectTarget, createAddressPolicy, targetOf } from '../../net/egress-policy.ts'
import { type Connection, type DialTarget, openConnection } from './connections.ts'
import type { SendOutcome } from './send-failures.ts'
import { Attempt } from './sender.ts'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'

const toClose: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close()
})

/** A receiver that answers the first request, and resets every later one; and a connection to it. */
async function scene() {
  let requests = 0
  const act = (socket: Socket) => {
    requests += 1
    if (requests === 1) socket.write(OK)
    else socket.resetAndDestroy()
  }
  const receiver = await startRawReceiver((socket) => onRequest(socket, act))
  const verdict = targetOf(receiver.url, createAddressPolicy({ allowed: ['127.0.0.0/8'] }))
  if (!verdict.ok) throw new Error('the receiver has no target')
  const dial: DialTarget = (_, callback) => {
    const socket = connect(receiver.port, '127.0.0.1', () => callback(null, socket))
    return socket
  }
  const connection = openConnection(verdict.target, dial)
  toClose.push(
    () => receiver.close(),
    () => connection.destroy(),
  )
  return { connection, target: verdict.target, requests: () => requests }
}

/** Nothing else is dialled for it: where it would be, it is over. */
function attemptOn(connection: Connection, target: ConnectTarget): Promise<SendOutcome | 'again'> {
  return new Promise((settled) => {
    const pool = {
      take: () => connection,
      open: () => {
        settled('again')
        return connection
      },
      release: () => undefined,
    }
    const request = { url: target.origin, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 }
    new Attempt(request, target, pool, { monotonic: () => 0 }, settled).start()
  })
}

test('a connection that had to be made anew has not been used: that it is reset before an answer is a failed attempt', async () => {
  const { connection, target, requests } = await scene()
  expect(await attemptOn(connection, target)).toMatchObject({ kind: 'response', code: 200 })
  connection.socket?.destroy()
  expect(await attemptOn(connection, target)).toMatchObject({ kind: 'failure', class: 'reset' })
  expect(requests()).toBe(2)
})
