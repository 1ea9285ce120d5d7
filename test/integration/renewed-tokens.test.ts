/** The tokens of both roles end while they work: new ones are in the file in time, or some time after the end. */
import { readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Account } from '../../playground/api-keys.ts'
import { freePort } from '../../playground/free-port.ts'
import { API_VERSION } from '../../src/apis/meta.ts'
import { webhookEndpointKind, webhookEndpoints } from '../../src/apis/webhook-endpoint.ts'
import { tellFigures } from '../hostile/figures.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  SERVER_ACCOUNT,
  startInstallation,
} from '../support/installation.ts'
import { keyThatEnds } from '../support/key-that-ends.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

const LIMIT_MS = 240_000
const ORGANIZATION = 'acme'
const EVERY_MS = 250
const TYPE = 'billing.updated'
/** The API server forgives clocks that differ by a minute, and believes a token for ten seconds that it has looked at. */
const FORGIVEN_S = 60
const BELIEVED_S = 10
const FIRST_ENDS_S = 15
const SECOND_ENDS_S = 40
const SECOND_AT_S = 10
/** When the second token is no longer accepted. */
const THIRD_AT_S = SECOND_ENDS_S + BELIEVED_S + 5
const PUBLISHED_S = THIRD_AT_S + 15

let davit: Installation
let receiver: Receiver
let began = 0
const processes: RoleProcess[] = []

beforeAll(async () => {
  davit = await startInstallation()
  receiver = await startReceiver()
  await davit.makeOrganization(ORGANIZATION)
  await davit.api.create(webhookEndpoints, {
    apiVersion: API_VERSION,
    kind: webhookEndpointKind.kind,
    metadata: { namespace: ORGANIZATION, name: 'one' },
    spec: { url: `${receiver.url}/one`, eventTypes: [TYPE] },
  })
}, LIMIT_MS)

afterAll(async () => {
  for (const process of processes) await process.kill()
  await receiver?.close()
  await davit?.stop()
})

/** Tokens of an account that are rejected after some seconds, written to its file one after the other. */
async function tokensOf(account: Account) {
  const config = JSON.parse(await readFile(await davit.makeKubeconfig(account), 'utf8')) as {
    users: { user: { token?: string; tokenFile?: string } }[]
  }
  const [user] = config.users
  const key = user?.user.token ?? ''
  const path = join(davit.folder, `${account.name}.token`)
  if (user) user.user = { tokenFile: path }
  const kubeconfigPath = join(davit.folder, `${account.name}.renewed.kubeconfig`)
  await writeFile(kubeconfigPath, JSON.stringify(config), { mode: 0o600 })
  const made = JSON.parse(Buffer.from(key.split('.')[1] ?? '', 'base64url').toString()) as { iat: number }
  const write = async (seconds: number) => {
    const fromMaking = Math.round(began / 1000) + seconds - FORGIVEN_S - made.iat
    await writeFile(path, await keyThatEnds(davit.controlPlane, key, fromMaking), { mode: 0o600 })
  }
  return { kubeconfigPath, write }
}

function logOf(role: string): string {
  return join(davit.folder, `${role}.renewed.log`)
}

async function start(
  role: 'controller' | 'api',
  kubeconfigPath: string,
  settings = {},
): Promise<RoleProcess> {
  const process = new RoleProcess({
    role,
    kubeconfigPath,
    namespace: OPERATOR_NAMESPACE,
    replica: role,
    opsPort: await freePort(),
    logPath: logOf(role),
    settings,
  })
  processes.push(process)
  await process.untilReady()
  return process
}

test(
  'both go on with the new ones without a start, and nothing is lost',
  async () => {
    began = Date.now()
    const tokens = await Promise.all([CONTROLLER_ACCOUNT, SERVER_ACCOUNT].map(tokensOf))
    const [ofController, ofServer] = tokens
    const writeAll = async (seconds: number) =>
      void (await Promise.all(tokens.map((one) => one.write(seconds))))
    await writeAll(FIRST_ENDS_S)
    const port = await freePort()
    await start('controller', ofController?.kubeconfigPath ?? '')
    await start('api', ofServer?.kubeconfigPath ?? '', { DAVIT_API_ADDRESS: `127.0.0.1:${port}` })
    const key = await davit.makeKey(await davit.makeAccount(ORGANIZATION, 'owner', 'davit-owner'))
    const renewals = [
      sleep(began + SECOND_AT_S * 1000 - Date.now()).then(() => writeAll(SECOND_ENDS_S)),
      sleep(began + THIRD_AT_S * 1000 - Date.now()).then(() => writeAll(3600)),
    ]
    const answers = new Map<number, number>()
    let accepted = 0
    while (Date.now() < began + PUBLISHED_S * 1000) {
      const answer = await fetch(`http://127.0.0.1:${port}/organizations/${ORGANIZATION}/events`, {
        method: 'POST',
        headers: { authorization: key, 'content-type': 'application/json' },
        body: JSON.stringify({ type: TYPE, data: { n: accepted } }),
      })
      answers.set(answer.status, (answers.get(answer.status) ?? 0) + 1)
      if (answer.status === 202) accepted += 1
      await sleep(EVERY_MS)
    }
    await Promise.all(renewals)
    const ids = () => new Set(receiver.received('/one').map(({ headers }) => headers['webhook-id']))
    await until(
      async () => (ids().size >= accepted ? true : undefined),
      () => `${accepted} were accepted, ${ids().size} received`,
    )
    const logs = await Promise.all(['controller', 'api'].map((role) => readFile(logOf(role), 'utf8')))
    const refusals = logs.flatMap((log) => log.split('\n').filter((line) => line.includes('Unauthorized')))
    tellFigures('renewed-tokens', {
      'tokens that ended': 2 * tokens.length,
      accepted,
      received: ids().size,
      'refusals that logs tell of': refusals.length,
      'answered with 503 meanwhile': answers.get(503) ?? 0,
      'processes that ended': processes.filter(({ running }) => !running).length,
    })
    expect([...answers.keys()].filter((status) => status !== 202 && status !== 503)).toEqual([])
    expect(accepted).toBeGreaterThan(50)
    expect(refusals.length, logs.join('\n').slice(-8000)).toBeGreaterThan(0)
    expect(processes.map(({ running }) => running)).toEqual([true, true])
  },
  LIMIT_MS,
)
