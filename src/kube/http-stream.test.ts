import type { Dispatcher } from 'undici'
import { describe, expect, it } from 'vitest'
import { type HttpRequest, httpStream } from './transport.ts'

const REQUEST: HttpRequest = { method: 'GET', path: '/', headers: [] }

/** A dispatcher whose connection the test plays, and how often its reading was paused and went on. */
function scripted() {
  let handler: Dispatcher.DispatchHandler = {}
  const counts = { paused: 0, resumed: 0 }
  const controller: Dispatcher.DispatchController = {
    aborted: false,
    paused: false,
    reason: null,
    abort: () => undefined,
    pause: () => {
      counts.paused += 1
    },
    resume: () => {
      counts.resumed += 1
    },
  }
  const dispatcher = {
    dispatch: (_: unknown, given: Dispatcher.DispatchHandler) => {
      handler = given
      return true
    },
  } as unknown as Dispatcher
  return {
    dispatcher,
    counts,
    begin: (status = 200, headers = {}) => {
      handler.onRequestStart?.(controller, undefined)
      handler.onResponseStart?.(controller, status, headers)
    },
    data: (text: string) => handler.onResponseData?.(controller, Buffer.from(text)),
    end: () => handler.onResponseEnd?.(controller, {}),
    fail: (error: Error) => handler.onResponseError?.(controller, error),
  }
}

async function begun() {
  const connection = scripted()
  const opening = httpStream(connection.dispatcher, REQUEST)
  connection.begin()
  const { chunks } = await opening
  return { ...connection, reading: chunks[Symbol.asyncIterator]() }
}

const textOf = async (next: ReturnType<AsyncIterator<Buffer[]>['next']>) => {
  const { done, value } = await next
  return done ? undefined : value.map(String)
}

describe('an answer that goes on', () => {
  it('gives at once what came together, and waits for more', async () => {
    const { reading, data, end } = await begun()
    data('a')
    data('b')
    expect(await textOf(reading.next())).toEqual(['a', 'b'])
    const next = textOf(reading.next())
    data('c')
    data('d')
    expect(await next).toEqual(['c', 'd'])
    end()
    expect(await textOf(reading.next())).toBeUndefined()
  })

  it('gives what came before it broke, and then says why', async () => {
    const { reading, data, fail } = await begun()
    data('a')
    fail(new Error('reset'))
    expect(await textOf(reading.next())).toEqual(['a'])
    await expect(reading.next()).rejects.toThrow('reset')
  })

  it('tells who waits already that it broke', async () => {
    const { reading, fail } = await begun()
    const next = reading.next()
    fail(new Error('reset'))
    await expect(next).rejects.toThrow('reset')
  })

  it('that does not begin says why', async () => {
    const connection = scripted()
    const opening = httpStream(connection.dispatcher, REQUEST)
    connection.fail(new Error('refused'))
    await expect(opening).rejects.toThrow('refused')
  })

  it('begins with the final answer, not with one that only informs', async () => {
    const connection = scripted()
    const opening = httpStream(connection.dispatcher, REQUEST)
    connection.begin(103)
    connection.begin(429, { 'retry-after': '3' })
    expect(await opening).toMatchObject({ status: 429, retryAfter: '3' })
  })

  it('leaves to the connection what nobody takes, and goes on once it is taken', async () => {
    const { reading, data, counts } = await begun()
    data('x'.repeat(1024 * 1024 - 1))
    expect(counts).toEqual({ paused: 0, resumed: 0 })
    data('x')
    expect(counts).toEqual({ paused: 1, resumed: 0 })
    await reading.next()
    expect(counts).toEqual({ paused: 1, resumed: 1 })
    data('x')
    expect(counts.paused).toBe(1)
  })
})
