import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { runCheck } from './check.ts'

const KEY = 'a-key'

let server: Server
let url: string
let folder: string
let ready: number
let written: string

beforeEach(async () => {
  ready = 200
  written = ''
  vi.spyOn(process.stdout, 'write').mockImplementation((text) => {
    written += text
    return true
  })
  folder = await mkdtemp(join(tmpdir(), 'davit-check-'))
  await writeFile(join(folder, 'token'), `${KEY}\n`)
  server = createServer((request, response) => {
    const isOpen = request.url === '/readyz' ? ready : request.url === '/openapi.json' ? 200 : undefined
    response.writeHead(isOpen ?? (request.headers.authorization === KEY ? 404 : 401)).end()
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})

afterEach(async () => {
  vi.restoreAllMocks()
  server.close()
  await rm(folder, { recursive: true, force: true })
})

const environment = () => ({
  DAVIT_CHECK_READY: `${url}/readyz,${url}/readyz`,
  DAVIT_CHECK_API: url,
  DAVIT_CHECK_TOKEN_FILE: join(folder, 'token'),
  DAVIT_CHECK_TIMEOUT: '1s',
})

test('a release whose roles are ready and whose REST API knows keys is well', async () => {
  expect(await runCheck(environment())).toBe(0)
  expect(written.match(/^ok {4}/gm)).toHaveLength(5)
  expect(written).not.toContain(KEY)
})

test('one that is not ready in time fails, and says what', async () => {
  ready = 503
  expect(await runCheck(environment())).toBe(1)
  expect(written).toContain('FAILED')
  expect(written).toContain('expected status 200, got 503')
})

test('a key that is refused fails', async () => {
  await writeFile(join(folder, 'token'), 'another')
  expect(await runCheck(environment())).toBe(1)
  expect(written).toContain('the REST API accepts API tokens of this cluster: expected status 404, got 401')
})

test('settings that are none stop it with every mistake', async () => {
  await expect(runCheck({ DAVIT_CHECK_API: 'ftp://x' })).rejects.toThrow(
    /DAVIT_CHECK_READY.*\n.*DAVIT_CHECK_API/,
  )
})
