import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { binaryCache } from './find-binaries.mjs'
import { downloadBinaries } from './install.ts'

let folder: string
let into: string
let server: Server | undefined

const silent = { show: () => {}, end: () => {} }

beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'control-plane-download-'))
  into = join(folder, 'into')
  mkdirSync(into)
})

afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  rmSync(folder, { recursive: true, force: true })
})

async function serve(listener: RequestListener): Promise<string> {
  server = createServer(listener)
  await new Promise<void>((resolve) => server?.listen(0, '127.0.0.1', resolve))
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}

/** An archive in the format that envtest publishes. */
function archive(): Buffer {
  const bin = join(folder, 'controller-tools', 'envtest')
  mkdirSync(bin, { recursive: true })
  for (const name of ['etcd', 'kube-apiserver', 'kubectl']) {
    writeFileSync(join(bin, name), `#!/bin/sh\necho ${name}\n`)
    chmodSync(join(bin, name), 0o755)
  }
  execFileSync('tar', ['-czf', 'release.tar.gz', 'controller-tools'], { cwd: folder })
  return readFileSync(join(folder, 'release.tar.gz'))
}

/** A server with an index of one release that consists of the given archive. */
async function release(content: Buffer, hash: string): Promise<string> {
  const { platform } = binaryCache({})
  const base = await serve((request, response) => {
    if (request.url !== '/index.yaml') {
      response.end(content)
      return
    }
    const name = `envtest-v1.36.2-${platform}.tar.gz`
    response.end(
      JSON.stringify({ releases: { 'v1.36.2': { [name]: { hash, selfLink: `${base}/a.tar.gz` } } } }),
    )
  })
  return `${base}/index.yaml`
}

describe('downloadBinaries', () => {
  it('brings the programs of the newest patch, and nothing else', async () => {
    const content = archive()
    const indexUrl = await release(content, createHash('sha512').update(content).digest('hex'))
    expect(await downloadBinaries(into, silent, { indexUrl })).toBe('v1.36.2')
    expect(readdirSync(into).sort()).toEqual(['etcd', 'kube-apiserver', 'kubectl'])
    expect(execFileSync(join(into, 'etcd'), { encoding: 'utf8' })).toBe('etcd\n')
  })

  it('refuses an archive that is not what the index promises', async () => {
    const indexUrl = await release(archive(), 'ab'.repeat(64))
    await expect(downloadBinaries(into, silent, { indexUrl })).rejects.toThrow('SHA-512 mismatch')
  })

  it('gives up where a server accepts and says nothing', async () => {
    const indexUrl = await serve(() => {})
    const download = downloadBinaries(into, silent, { indexUrl, stallLimitMs: 100 })
    await expect(download).rejects.toThrow('received no data for 0.1 s')
  })

  it('gives the reason where nobody listens', async () => {
    const indexUrl = await serve(() => {})
    await new Promise((resolve) => server?.close(resolve))
    await expect(downloadBinaries(into, silent, { indexUrl })).rejects.toThrow(/ECONNREFUSED/)
  })
})
