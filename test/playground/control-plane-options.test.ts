import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { installCrds, requestApi } from '../../playground/control-plane/api-server.ts'
import { type ControlPlane, startControlPlane } from '../../playground/control-plane/control-plane.ts'
import { until } from '../support/until.ts'

const CRDS = fileURLToPath(new URL('../../crds', import.meta.url))
const CONFIG_MAPS = '/api/v1/namespaces/default/configmaps'

let folder: string
let auditLog: string
let controlPlane: ControlPlane

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'control-plane-options-'))
  auditLog = join(folder, 'audit.log')
  controlPlane = await startControlPlane({
    fsync: true,
    gogc: 400,
    audit: { logPath: auditLog, level: 'RequestResponse' },
    dataDir: join(folder, 'data'),
    logPath: join(folder, 'servers.log'),
  })
})

afterAll(async () => {
  await controlPlane?.stop()
  rmSync(folder, { recursive: true, force: true })
})

const get = (path: string) => requestApi(controlPlane.access, { method: 'GET', path })
const post = (path: string, body: object) => requestApi(controlPlane.access, { method: 'POST', path, body })

describe('a control plane of one’s own', () => {
  it.skipIf(process.platform !== 'linux')('hands the settings to the servers', () => {
    const { etcd, apiServer } = controlPlane.pids
    expect(readFileSync(`/proc/${etcd}/cmdline`, 'utf8')).toContain('--unsafe-no-fsync=false')
    expect(readFileSync(`/proc/${apiServer}/environ`, 'utf8').split('\0')).toContain('GOGC=400')
    expect(readFileSync(join(folder, 'servers.log'), 'utf8')).toContain('etcd')
  })

  it('never writes a secret or a token into the audit log, but what else was asked', async () => {
    await post('/api/v1/namespaces/default/serviceaccounts', { metadata: { name: 'box' } })
    const token = await post('/api/v1/namespaces/default/serviceaccounts/box/token', {
      spec: { audiences: ['davit'] },
    })
    const secret = { metadata: { name: 'key' }, stringData: { key: 'canary-in-a-secret' } }
    expect((await post('/api/v1/namespaces/default/secrets', secret)).status).toBe(201)
    const map = { metadata: { name: 'map' }, data: { key: 'canary-in-a-map' } }
    expect((await post(CONFIG_MAPS, map)).status).toBe(201)
    const log = readFileSync(auditLog, 'utf8')
    expect(log).toContain('canary-in-a-map')
    expect(log).toContain('"resource":"secrets"')
    expect(log).not.toContain('canary-in-a-secret')
    expect(log).not.toContain((token.body as { status: { token: string } }).status.token)
  })

  it('installs the CRDs so that they can be listed and written at once, and again without harm', async () => {
    const names = await installCrds(controlPlane, CRDS)
    expect(names).toContain('webhookevents.davit.dev')
    expect((await get('/apis/davit.dev/v1alpha1/webhookevents')).status).toBe(200)
    expect(await installCrds(controlPlane, CRDS)).toEqual(names)
  })

  it('refuses a folder without CRDs', async () => {
    const empty = mkdtempSync(join(folder, 'empty-'))
    await expect(installCrds(controlPlane, empty)).rejects.toThrow('no CustomResourceDefinition')
  })

  it('forgets old versions where etcd is compacted', async () => {
    const before = (await get(CONFIG_MAPS)).body as { metadata: { resourceVersion: string } }
    const old = before.metadata.resourceVersion
    await post(CONFIG_MAPS, { metadata: { name: 'later' } })
    const exact = `${CONFIG_MAPS}?resourceVersion=${old}&resourceVersionMatch=Exact`
    expect(await controlPlane.compactEtcd()).toBeGreaterThan(Number(old))
    // Its watch cache still knows; a new API server has to ask etcd.
    await controlPlane.startApiServer()
    expect((await get(exact)).status).toBe(410)
  })

  it('starts the API server again, at the same address and with what was stored', async () => {
    const { apiServer, etcd } = controlPlane.pids
    await controlPlane.stopApiServer()
    await expect(get('/readyz')).rejects.toThrow(/ECONNREFUSED/)
    await controlPlane.startApiServer()
    expect((await get(`${CONFIG_MAPS}/map`)).status).toBe(200)
    expect(controlPlane.pids.etcd).toBe(etcd)
    expect(controlPlane.pids.apiServer).not.toBe(apiServer)
  })

  it('starts the API server again after it was killed', async () => {
    process.kill(controlPlane.pids.apiServer, 'SIGKILL')
    await controlPlane.startApiServer()
    expect((await get('/readyz')).status).toBe(200)
  })

  it('starts etcd again after it was killed, with what was stored and under the same API server', async () => {
    const { apiServer, etcd } = controlPlane.pids
    await controlPlane.killEtcd()
    await expect(controlPlane.compactEtcd()).rejects.toThrow()
    await controlPlane.startEtcd()
    await until(
      async () => (await get(`${CONFIG_MAPS}/map`)).status === 200 || undefined,
      () => 'the API server does not find etcd again',
    )
    expect(controlPlane.pids.apiServer).toBe(apiServer)
    expect(controlPlane.pids.etcd).not.toBe(etcd)
  })

  it('refuses writes, and answers reads, while etcd has no space', async () => {
    await controlPlane.setNoSpace(true)
    const refused = await post(CONFIG_MAPS, { metadata: { name: 'no-room' } })
    expect(JSON.stringify(refused.body)).toContain('database space exceeded')
    expect((await get(`${CONFIG_MAPS}/map`)).status).toBe(200)
    await controlPlane.setNoSpace(false)
    expect((await post(CONFIG_MAPS, { metadata: { name: 'no-room' } })).status).toBe(201)
  })

  it('keeps its files where the caller named the folder, and takes none that is in use', async () => {
    await controlPlane.stop()
    await controlPlane.stop()
    expect(existsSync(join(folder, 'data', 'etcd', 'member'))).toBe(true)
    await expect(startControlPlane({ dataDir: join(folder, 'data') })).rejects.toThrow('is not empty')
  })
})
