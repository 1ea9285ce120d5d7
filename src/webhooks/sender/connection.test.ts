import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { afterEach, describe, expect, test } from 'vitest'
import { FakeClock, settle } from '../../../test/support/fake-clock.ts'
import { onRequest, startRawReceiver } from '../../../test/support/receiver-raw.ts'
import { type ConnectTarget, createAddressPolicy, targetOf } from '../../net/egress-policy.ts'
import { type Connection, ConnectionPool, type DialTarget, openConnection } from './connections.ts'
import type { SendOutcome } from './send-failures.ts'
import { Attempt } from './sender.ts'

const OK = 'HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n'

const toClose: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).reverse()) await close()
})

function targetOfUrl(url: string): ConnectTarget {
  const decision = targetOf(url, createAddressPolicy({ allowed: ['127.0.0.0/8'] }))
  if (!decision.ok) throw new Error('the receiver has no target')
  return decision.target
}

function dialTo(port: number): DialTarget {
  return (_, callback) => {
    const socket = connect(port, '127.0.0.1', () => callback(null, socket))
    return socket
  }
}

/** A receiver that answers the first request, and resets every later one; and a connection to it. */
async function scene() {
  let requests = 0
  const act = (socket: Socket) => {
    requests += 1
    if (requests === 1) socket.write(OK)
    else socket.resetAndDestroy()
  }
  const receiver = await startRawReceiver((socket) => onRequest(socket, act))
  const target = targetOfUrl(receiver.url)
  const connection = openConnection(target, dialTo(receiver.port), new FakeClock())
  toClose.push(
    () => receiver.close(),
    () => connection.destroy(),
  )
  return { connection, target, requests: () => requests }
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

describe('a connection that takes the place of one that was closed', () => {
  /** A receiver whose nth request is handled by the nth action, and attempts on a pool of one idle connection. */
  async function pooled(...actions: ((socket: Socket) => void)[]) {
    let requests = 0
    const sockets: Socket[] = []
    const receiver = await startRawReceiver((socket) => {
      sockets.push(socket)
      onRequest(socket, () => {
        const act = actions[requests] ?? ((one: Socket) => void one.write(OK))
        requests += 1
        act(socket)
      })
    })
    const pool = new ConnectionPool(dialTo(receiver.port), 1, new FakeClock())
    toClose.push(
      () => receiver.close(),
      () => pool.close(),
    )
    const target = targetOfUrl(receiver.url)
    const attempt = () =>
      new Promise<SendOutcome>((settled) => {
        const request = { url: receiver.url, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 }
        new Attempt(request, target, pool, { monotonic: () => 0 }, settled).start()
      })
    return { pool, target, attempt, sockets, receiver }
  }

  const answer = (socket: Socket) => void socket.write(OK)
  const reset = (socket: Socket) => void socket.resetAndDestroy()
  const end = (socket: Socket) => void socket.end()

  test.each([
    { name: 'reset before its response', actions: [answer, reset, answer] },
    { name: 'ended before its response', actions: [answer, end, answer] },
    {
      name: 'ended in the status line',
      actions: [answer, (socket: Socket) => void socket.end('HT'), answer],
    },
  ])('is watched like any other: the first one was $name', async ({ actions }) => {
    const { pool, target, attempt, sockets } = await pooled(...actions)
    for (let i = 0; i < 2; i += 1) expect(await attempt()).toMatchObject({ code: 200 })
    expect(sockets).toHaveLength(2)
    await settle()
    const successor = pool.take(target)
    expect(successor.socket?.destroyed).toBe(false)
    pool.release(successor)
    const disconnected = once(successor.client, 'disconnect')
    sockets.at(-1)?.end()
    await disconnected
    const next = pool.take(target)
    expect(next).not.toBe(successor)
    await next.destroy()
  })

  test('is watched like any other: the client has connected again by itself', async () => {
    const { pool, target, attempt, sockets } = await pooled()
    await attempt()
    await settle()
    const first = pool.take(target)
    const gone = once(first.client, 'disconnect')
    first.socket?.destroy()
    await gone
    const request = { url: target.origin, headers: {}, body: Buffer.from('{}'), deadlineMs: 20_000 }
    const outcome = new Promise<SendOutcome>((settled) => {
      const own = {
        take: () => first,
        open: () => pool.open(target),
        release: (one: Connection) => pool.release(one),
      }
      new Attempt(request, target, own, { monotonic: () => 0 }, settled).start()
    })
    expect(await outcome).toMatchObject({ code: 200 })
    await settle()
    const disconnected = once(first.client, 'disconnect')
    sockets.at(-1)?.end()
    await disconnected
    const next = pool.take(target)
    expect(next).not.toBe(first)
    await next.destroy()
  })

  test('does not count as idle after its receiver has closed it', async () => {
    const { pool, target, attempt, sockets } = await pooled(answer, reset, answer)
    for (let i = 0; i < 2; i += 1) await attempt()
    await settle()
    const successor = pool.take(target)
    pool.release(successor)
    const disconnected = once(successor.client, 'disconnect')
    sockets.at(-1)?.end()
    await disconnected
    await attempt()
    await settle()
    const live = pool.take(target)
    expect(live.socket?.destroyed).toBe(false)
    await live.destroy()
  })
})
