/** Two controllers that have one name, as real processes: by the host on which both run, and by the same DAVIT_REPLICA. */

import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { freePort } from '../../playground/free-port.ts'
import { SHARD_COUNT } from '../../src/ha/assignment.ts'
import {
  CONTROLLER_ACCOUNT,
  type Installation,
  OPERATOR_NAMESPACE,
  startInstallation,
} from '../support/installation.ts'
import { RoleProcess } from '../support/role-process.ts'
import { until } from '../support/until.ts'

/** A Lease, an attempt, and what a busy machine adds. */
const GONE_LIMIT_MS = 60_000

let davit: Installation
const started: RoleProcess[] = []

beforeAll(async () => {
  davit = await startInstallation()
}, 240_000)

afterAll(async () => {
  for (const process of started) if (process.running) await process.kill()
  await davit?.stop()
})

function logOf(process: number): string {
  return join(davit.folder, `controller-${process}.log`)
}

/** @param replica absent: the name may be shared by several processes */
async function start(replica?: string): Promise<RoleProcess> {
  const process = new RoleProcess({
    role: 'controller',
    kubeconfigPath: await davit.makeKubeconfig(CONTROLLER_ACCOUNT),
    namespace: OPERATOR_NAMESPACE,
    replica,
    opsPort: await freePort(),
    logPath: logOf(started.length),
    settings: { DAVIT_LEASE_DURATION: '3s' },
  })
  started.push(process)
  return process
}

async function untilItOwnsAll(process: RoleProcess): Promise<void> {
  await until(
    async () => (await process.gauge('davit_shards_owned')) === SHARD_COUNT || undefined,
    () => 'it does not own all shards',
    GONE_LIMIT_MS,
  )
}

test('of two on one host the second does nothing, says why, and goes on once the first can do nothing more', async () => {
  const first = await start()
  await first.untilReady()
  await untilItOwnsAll(first)
  const second = await start()
  let said = ''
  await until(
    async () => {
      said = await second.readiness()
      return said.includes('another process uses, or recently used, the name') || undefined
    },
    () => `it says: ${said}`,
  )
  expect(await second.isReady()).toBe(false)
  expect(await second.gauge('davit_shards_owned')).toBe(0)
  expect(await first.gauge('davit_shards_owned')).toBe(SHARD_COUNT)
  await first.kill()
  await untilItOwnsAll(second)
  await second.untilReady()
  expect(await second.stop()).toBe(0)
}, 180_000)

test('of two to which one name was given the second has it at once, and the first ends and says so', async () => {
  const first = await start('davit-0')
  await first.untilReady()
  await untilItOwnsAll(first)
  const second = await start('davit-0')
  expect(await first.exited).toBe(1)
  await untilItOwnsAll(second)
  await second.untilReady()
  const log = await readFile(logOf(started.indexOf(first)), 'utf8')
  expect(log).toContain('another process uses the name davit-0')
  expect(await second.stop()).toBe(0)
}, 180_000)
