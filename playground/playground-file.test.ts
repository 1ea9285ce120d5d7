import { once } from 'node:events'
import { mkdtemp, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  findRunning,
  type PlaygroundFacts,
  removePlaygroundFile,
  writePlaygroundFile,
} from './playground-file.ts'

let folder: string
let health: Server | undefined

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-playground-file-'))
})

afterEach(async () => {
  health?.close()
  health?.closeAllConnections()
  await rm(folder, { recursive: true })
})

async function healthAnswering(code: number): Promise<string> {
  health = createServer((_, response) => void response.writeHead(code).end())
  health.listen(0, '127.0.0.1')
  await once(health, 'listening')
  return `http://127.0.0.1:${(health.address() as AddressInfo).port}/healthz`
}

function factsWith(url: string): PlaygroundFacts {
  const address = 'http://127.0.0.1:1'
  return {
    pid: 7,
    kubeconfig: '/k',
    kubectl: 'kubectl',
    namespace: 'acme',
    baseUrl: address,
    organization: 'acme',
    keyFile: '/a.key',
    otherOrganization: 'globex',
    otherKeyFile: '/b.key',
    receiver: address,
    metrics: address,
    health: url,
  }
}

describe('the file of a running playground', () => {
  it('is for its owner alone, whole, and gone afterwards', async () => {
    const path = join(folder, 'state', 'playground.json')
    const facts = factsWith(await healthAnswering(200))
    await writePlaygroundFile(path, facts)
    expect((await stat(path)).mode & 0o777).toBe(0o600)
    expect(await findRunning(path)).toEqual(facts)
    await removePlaygroundFile(path)
    expect(await readdir(join(folder, 'state'))).toEqual([])
  })

  it.each([
    { given: 'no file', write: undefined },
    { given: 'a file that is no JSON', write: '{"pid"' },
    { given: 'a file that says something else', write: '{"pid":1}' },
    { given: 'one that was killed', write: JSON.stringify(factsWith('http://127.0.0.1:1/healthz')) },
  ])('tells of no playground where there is $given', async ({ write }) => {
    const path = join(folder, 'playground.json')
    if (write !== undefined) await writeFile(path, write)
    expect(await findRunning(path)).toBeUndefined()
  })

  it('tells of no playground where something else answers at its address', async () => {
    const path = join(folder, 'playground.json')
    await writePlaygroundFile(path, factsWith(await healthAnswering(404)))
    expect(await findRunning(path)).toBeUndefined()
  })
})
