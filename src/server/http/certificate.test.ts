import { mkdir, mkdtemp, rm, symlink, unlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type CertificateSource, watchCertificateFiles } from './server.ts'

let folder: string
let source: CertificateSource | undefined
const log = { info: vi.fn(), warn: vi.fn(), error: vi.fn() }
const files = () => ({ certFile: join(folder, 'now', 'tls.crt'), keyFile: join(folder, 'now', 'tls.key') })

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'davit-certificate-'))
  await put('first')
})

afterEach(async () => {
  source?.close()
  vi.clearAllMocks()
  await rm(folder, { recursive: true, force: true })
})

/** As a kubelet does it: a new folder, and a link that leads there. */
async function put(name: string): Promise<void> {
  await mkdir(join(folder, name))
  await writeFile(join(folder, name, 'tls.crt'), `cert ${name}`)
  await writeFile(join(folder, name, 'tls.key'), `key ${name}`)
  await unlink(join(folder, 'now')).catch(() => undefined)
  await symlink(name, join(folder, 'now'))
}

test('a renewed certificate is taken up from behind a link', async () => {
  source = await watchCertificateFiles(files(), { log, lookMs: 5 })
  expect(source.current()).toEqual({ cert: 'cert first', key: 'key first' })
  const seen = vi.fn()
  source.listen(seen)
  await put('second')
  await vi.waitFor(() => expect(seen).toHaveBeenLastCalledWith({ cert: 'cert second', key: 'key second' }))
  await vi.waitFor(() => expect(source?.current().cert).toBe('cert second'))
})

test('one that the server refuses, or that is gone, leaves the one before', async () => {
  source = await watchCertificateFiles(files(), { log, lookMs: 5 })
  source.listen(() => {
    throw new Error('no certificate')
  })
  await put('broken')
  await vi.waitFor(() => expect(log.warn).toHaveBeenCalled())
  expect(source.current().cert).toBe('cert first')
})

test('none at the start is an error', async () => {
  await unlink(join(folder, 'now'))
  await expect(watchCertificateFiles(files(), { log })).rejects.toThrow(/ENOENT/)
})
