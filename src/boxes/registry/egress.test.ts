import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer } from 'node:net'
import { promisify } from 'node:util'
import { afterEach, describe, expect, it } from 'vitest'
import { freePort } from '../../../playground/free-port.ts'
import { type EgressProxy, startEgressProxy } from './egress.ts'

let gate: EgressProxy
const opened: EgressProxy[] = []
afterEach(async () => {
  for (const one of opened.splice(0)) await one.close()
})

async function open(registry: string, allowed: readonly string[] = []) {
  gate = await startEgressProxy(registry, allowed)
  opened.push(gate)
}

/** What the gate answers to somebody who wants to go there, and what comes back through it. */
async function go(target: string, said = ''): Promise<string> {
  const socket = connect(Number(new URL(gate.environment.HTTPS_PROXY ?? '').port), '127.0.0.1')
  socket.write(`CONNECT ${target} HTTP/1.1\r\nHost: ${target}\r\n\r\n${said}`)
  const pieces: Buffer[] = []
  for await (const piece of socket) pieces.push(piece)
  return Buffer.concat(pieces).toString()
}

/** Says what it was told, and closes. */
async function echo() {
  const server = createServer((socket) => socket.once('data', (data) => socket.end(data)))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return { port: (server.address() as AddressInfo).port, stop: () => void server.close() }
}

describe('through the gate', () => {
  it('a registry is reached', async () => {
    const server = await echo()
    try {
      await open(`localhost:${server.port}`)
      expect(await go(`localhost:${server.port}`, 'hello')).toBe(
        'HTTP/1.1 200 Connection established\r\n\r\nhello',
      )
    } finally {
      server.stop()
    }
  })

  it.each([
    [
      'a metadata service',
      '169.254.169.254:443',
      /^HTTP\/1\.1 502 169\.254\.169\.254 resolves to an address that bakes/,
    ],
    ['a metadata service by IPv6', '[fd00:ec2::254]:443', /^HTTP\/1\.1 502 .*bakes must not connect to/],
    ['a private network, beside a public registry', '10.0.0.1:443', /bakes must not connect to/],
    [
      'a name that means this machine',
      'localhost:443',
      /localhost resolves to an address that bakes must not connect to/,
    ],
    [
      'a name that means nothing',
      'registry.invalid:443',
      /502 lookup registry\.invalid: (no such host|temporary)/,
    ],
    ['no host', 'a b:443', /^HTTP\/1\.1 400|invalid host/],
  ])('nobody reaches %s', async (_name, target, want) => {
    await open('ghcr.io')
    expect(await go(target)).toMatch(want)
  })

  it('who allows a name of this machine reaches it', async () => {
    const port = await freePort()
    await open('ghcr.io', [`localhost:${port}`])
    expect(await go(`localhost:${port}`)).toMatch(
      /^HTTP\/1\.1 502 dial tcp localhost:\d+: connection refused/,
    )
  })

  it('nothing goes by plain http', async () => {
    await open('ghcr.io')
    const answer = await fetch(gate.environment.HTTP_PROXY ?? '')
    expect([answer.status, await answer.text()]).toEqual([403, 'Plain HTTP is not allowed.\n'])
  })

  it('the tool goes, and says what it met', async () => {
    await open('registry.invalid')
    const tool = promisify(execFile)('skopeo', ['inspect', 'docker://registry.invalid/acme/api:1.0'], {
      env: { PATH: process.env.PATH, ...gate.environment },
    })
    await expect(tool).rejects.toMatchObject({
      stderr: expect.stringMatching(/lookup registry\.invalid: (no such host|temporary failure)/),
    })
  })

  it('it is closed with everything that goes through it', async () => {
    const server = createServer()
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await open(`localhost:${port}`)
    const held = go(`localhost:${port}`, 'hello').catch(() => 'broken')
    await once(server, 'connection')
    await gate.close()
    opened.pop()
    expect(await held).toMatch(/^(|broken|HTTP\/1\.1 200.*)$/s)
    server.close()
  })
})
