import { describe, expect, it } from 'vitest'
import {
  type Responder,
  ScriptedApiServer,
  sendJson,
  sendStatus,
} from '../../test/support/scripted-api-server.ts'
import { CREATE, cleanUp, connectTransport, errorOf } from '../../test/support/transport-bed.ts'
import type { CredentialSource, Credentials } from './auth.ts'

describe('credentials', () => {
  /** Gives the next of these after each refusal. */
  function tokens(...names: string[]): CredentialSource & { refusals: number } {
    let held: Credentials = { headers: ['authorization', `Bearer ${names.shift()}`], tls: {} }
    return {
      refusals: 0,
      current: () => held,
      refused() {
        this.refusals += 1
        const next = names.shift()
        if (next !== undefined) held = { headers: ['authorization', `Bearer ${next}`], tls: held.tls }
      },
    }
  }
  const wants =
    (token: string): Responder =>
    (response, request) => {
      if (request.headers.authorization === `Bearer ${token}`) sendJson(response, 200, {})
      else sendStatus(response, 401, 'Unauthorized')
    }

  it('are fetched again after a 401, and the call, even a write, is repeated once with new ones', async () => {
    const credentials = tokens('old', 'new')
    const server = await new ScriptedApiServer().start()
    cleanUp(() => server.stop())
    const transport = connectTransport(server.origin, {
      access: { origin: server.origin, basePath: '', credentials },
    })
    server.script('write', wants('new'), wants('new'))
    await transport.call(CREATE)
    expect(server.count('write')).toBe(2)
    expect(credentials.refusals).toBe(1)
  })

  it('are fetched only once for a call, however many are refused', async () => {
    const credentials = tokens('one', 'two', 'three', 'four')
    const server = await new ScriptedApiServer().start()
    cleanUp(() => server.stop())
    const transport = connectTransport(server.origin, {
      access: { origin: server.origin, basePath: '', credentials },
    })
    server.script('write', wants('x'), wants('x'), wants('x'), wants('x'))
    expect((await errorOf(transport.call(CREATE))).kind).toBe('Unauthorized')
    expect(server.count('write')).toBe(2)
  })

  it('that are refused and have no successor are no reason to ask again', async () => {
    const credentials = tokens('old')
    const server = await new ScriptedApiServer().start()
    cleanUp(() => server.stop())
    const transport = connectTransport(server.origin, {
      access: { origin: server.origin, basePath: '', credentials },
    })
    server.script('write', wants('new'), wants('new'))
    expect(await errorOf(transport.call(CREATE))).toMatchObject({ kind: 'Unauthorized', status: 401 })
    expect(server.count('write')).toBe(1)
  })
})
