import { describe, expect, it } from 'vitest'
import { FakeClock, settle } from '../../test/support/fake-clock.ts'
import type { Responder } from '../../test/support/scripted-api-server.ts'
import { busy, errorOf, LIST, startTransport } from '../../test/support/transport-bed.ts'
import type { ApiRequest } from './transport.ts'

describe('a stream', () => {
  const WATCH: ApiRequest = { verb: 'watch', path: '/apis/test.dev/v1/things?watch=1&resourceVersion=100' }

  it('gives what comes until the server ends it', async () => {
    const { server, transport } = await startTransport()
    const stream = await transport.open(WATCH, new AbortController().signal)
    const watch = await server.watch()
    watch.raw('one')
    watch.end()
    const chunks: Buffer[] = []
    for await (const some of stream.chunks) chunks.push(...some)
    expect(Buffer.concat(chunks).toString()).toBe('one')
    stream.close()
  })

  it('has a connection of its own, so that watches never use up those of calls', async () => {
    const { server, transport } = await startTransport({ connections: 1 })
    const { signal } = new AbortController()
    await Promise.all([1, 2, 3].map(() => transport.open(WATCH, signal)))
    expect(server.watches).toHaveLength(3)
    await transport.call(LIST)
  })

  it('that is answered with an error throws it, with the wait that was asked for', async () => {
    const { server, transport } = await startTransport()
    server.script('watch', busy)
    expect(await errorOf(transport.open(WATCH, new AbortController().signal))).toMatchObject({
      kind: 'TooManyRequests',
      retryAfterMs: 1_000,
    })
  })

  it('that is not opened by the deadline throws, also when an error drips in for ever', async () => {
    const drip: Responder = (response) => {
      response.writeHead(500)
      response.write('{')
    }
    const never: Responder = () => undefined
    for (const respond of [drip, never]) {
      const clock = new FakeClock()
      const { server, transport } = await startTransport({ clock })
      server.script('watch', respond)
      const opening = errorOf(transport.open(WATCH, new AbortController().signal))
      await server.until(() => server.requests.length === 1)
      await settle()
      await clock.elapse(10_000)
      expect((await opening).kind).toBe('Unavailable')
    }
  })

  it('ends when it is aborted, before or after it was opened, and when the transport is closed', async () => {
    const { server, transport } = await startTransport()
    const aborted = new AbortController()
    aborted.abort()
    expect((await errorOf(transport.open(WATCH, aborted.signal))).kind).toBe('Unavailable')
    const abort = new AbortController()
    const one = await transport.open(WATCH, abort.signal)
    const other = await transport.open(WATCH, new AbortController().signal)
    const ends = [one, other].map(async (stream) => {
      for await (const _ of stream.chunks);
    })
    const broken = ends.map((end) => expect(end).rejects.toThrow())
    abort.abort()
    await broken[0]
    await transport.close()
    await broken[1]
    await server.until(() => server.watches.length === 0)
  })
})
