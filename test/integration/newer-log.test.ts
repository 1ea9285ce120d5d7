/** A newer version has written to the log: the real processes of this one end, and say why. */

import { randomBytes } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { deliverySegments } from '../../src/apis/delivery-segment.ts'
import { sortableName } from '../../src/apis/ids.ts'
import { LOG_FORMAT } from '../../src/apis/log-format.ts'
import { API_VERSION, type ResourceType } from '../../src/apis/meta.ts'
import { outcomeSegments } from '../../src/apis/outcome-segment.ts'
import { type Installation, OPERATOR_NAMESPACE, startInstallation } from '../support/installation.ts'
import type { RoleProcess } from '../support/role-process.ts'

let davit: Installation

beforeAll(async () => {
  davit = await startInstallation()
}, 240_000)

afterAll(async () => {
  await davit?.stop()
})

const newer = { format: LOG_FORMAT + 1, writtenAt: 1, writer: 'newer' }
const event = `${'0'.repeat(26)} acme test.happened - - {}`

const KINDS = [
  { kind: 'DeliverySegment', type: deliverySegments, spec: { ...newer, events: [event], deliveries: '' } },
  { kind: 'OutcomeSegment', type: outcomeSegments, spec: { ...newer, lowWater: '0', records: '1/0 ended' } },
]

async function write(type: ResourceType, kind: string, spec: object) {
  const metadata = { namespace: OPERATOR_NAMESPACE, name: sortableName(Date.now(), randomBytes(10)) }
  await davit.api.create(type, { apiVersion: API_VERSION, kind, metadata, spec })
  return metadata
}

/** Both roles, with the logs that they write. */
async function startBoth() {
  const server = await davit.startServer()
  const roles: { process: RoleProcess; logPath: string }[] = [
    { process: await davit.startController(), logPath: `${davit.folder}/controller.log` },
    server,
  ]
  return roles
}

async function expectEnded({ process, logPath }: { process: RoleProcess; logPath: string }, name: string) {
  expect(await process.exited).toBe(1)
  const said = (await readFile(logPath, 'utf8')).split('\n').filter((line) => line.includes(name))
  expect(said.join('\n')).toContain(`format ${LOG_FORMAT + 1}`)
  expect(said.join('\n')).toContain('run that version or a later one')
}

test.each(KINDS)(
  'a $kind of a format that is not known ends both roles, and the next start as well',
  async (one) => {
    const running = await startBoth()
    for (const { process } of running) await process.untilReady()
    const segment = await write(one.type, one.kind, one.spec)
    for (const role of running) await expectEnded(role, segment.name)
    for (const role of await startBoth()) await expectEnded(role, segment.name)
    await davit.api.delete(one.type, segment)
  },
  120_000,
)
