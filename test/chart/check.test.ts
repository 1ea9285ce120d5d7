/** What `helm test` runs, against both roles as they are installed. */
import { execFile } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import { webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import {
  type Installation,
  OPERATOR_NAMESPACE,
  type ServerProcess,
  startInstallation,
} from '../support/installation.ts'
import type { RoleProcess } from '../support/role-process.ts'
import { createTestAuthority } from '../support/tls.ts'

const run = promisify(execFile)
const MAIN = fileURLToPath(new URL('../../src/main.ts', import.meta.url))

let davit: Installation
let controller: RoleProcess
let server: ServerProcess
let environment: Record<string, string>

beforeAll(async () => {
  davit = await startInstallation()
  const file = (name: string) => join(davit.folder, name)
  const authority = createTestAuthority()
  const { cert, key } = authority.issue(['localhost', '127.0.0.1'])
  await writeFile(file('tls.crt'), cert)
  await writeFile(file('tls.key'), key)
  await writeFile(file('ca.crt'), authority.ca)
  controller = await davit.startController()
  const settings = { DAVIT_API_CERTIFICATE_FILE: file('tls.crt'), DAVIT_API_KEY_FILE: file('tls.key') }
  server = await davit.startServer({ settings })
  await Promise.all([controller.untilReady(), server.process.untilReady()])
  // A ServiceAccount without any right, as that of the chart's test.
  const account = await davit.makeAccount(OPERATOR_NAMESPACE, 'davit-check')
  await writeFile(file('token'), await davit.makeKey(account))
  const ready = (metricsUrl: string) => new URL('/readyz', metricsUrl).href
  environment = {
    DAVIT_CHECK_READY: `${ready(controller.metricsUrl)},${ready(server.process.metricsUrl)}`,
    DAVIT_CHECK_API: `https://127.0.0.1:${server.port}`,
    DAVIT_CHECK_TOKEN_FILE: file('token'),
    DAVIT_CHECK_ORGANIZATION: OPERATOR_NAMESPACE,
    DAVIT_CHECK_TIMEOUT: '20s',
    NODE_EXTRA_CA_CERTS: file('ca.crt'),
  }
})

afterAll(() => davit?.stop())

async function check(more: Record<string, string> = {}): Promise<{ code: number; output: string }> {
  const env = { ...environment, ...more }
  return await run(process.execPath, [MAIN, 'check'], { env }).then(
    ({ stdout }) => ({ code: 0, output: stdout }),
    ({ code, stdout }: { code: number; stdout: string }) => ({ code, output: stdout }),
  )
}

describe('the test of a release', () => {
  test('it receives a delivery that both roles have made, and leaves nothing behind', async () => {
    await davit.makeOrganization('acme')
    const token = await davit.makeKey(await davit.makeAccount('acme', 'owner', 'davit-owner'))
    await writeFile(join(davit.folder, 'owner-token'), token)
    const port = await freePort()
    const { code, output } = await check({
      DAVIT_CHECK_TOKEN_FILE: join(davit.folder, 'owner-token'),
      DAVIT_CHECK_ORGANIZATION: 'acme',
      DAVIT_CHECK_DELIVERY_URL: `http://127.0.0.1:${port}/`,
      DAVIT_CHECK_DELIVERY_ADDRESS: `127.0.0.1:${port}`,
    })
    expect(output).toContain('ok     an endpoint receives a signed delivery')
    expect(code).toBe(0)
    expect((await davit.api.list(webhookEndpoints, { namespace: 'acme' })).items).toEqual([])
  })

  test('it says that all is well, over TLS, with a key of this cluster', async () => {
    const { code, output } = await check()
    expect(output.match(/^ok {4}/gm)).toHaveLength(5)
    expect(code).toBe(0)
  })

  test('it says what is not ready', async () => {
    await controller.stop()
    const { code, output } = await check({ DAVIT_CHECK_TIMEOUT: '1s' })
    expect(code).toBe(1)
    expect(output.match(/^FAILED .*$/gm)).toHaveLength(1)
  })
})
