/** The limit on written bytes is one for the installation: every process counts what all of them write (README of the log). */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { objectBytes } from '../../src/webhooks/log/written-bytes.ts'
import { codeOf } from '../support/code-of.ts'
import { startDavit, type TestDavit } from '../support/davit.ts'
import { driveToAttempt } from '../support/drive.ts'
import { LIVE_SERVER_LIMITS, type LiveServer, startLiveServer } from '../support/live-server.ts'
import { ownEventType } from '../support/own-event-type.ts'
import { passBy } from '../support/pass-by.ts'
import { type Receiver, startReceiver } from '../support/receiver.ts'
import { until } from '../support/until.ts'

const MIB = 2 ** 20

let davit: TestDavit
let receiver: Receiver
const servers: LiveServer[] = []

beforeAll(async () => {
  receiver = await startReceiver()
  const env = {
    DAVIT_MAX_WRITTEN_BYTES: String(MIB),
    DAVIT_MAX_WRITTEN_BYTES_PER_ORGANIZATION: String(MIB),
  }
  davit = await startDavit('written-limit', { env })
})

afterAll(async () => {
  await Promise.all(servers.map((server) => server.stop()))
  await davit?.stop()
  await receiver?.close()
})

async function join(): Promise<LiveServer> {
  const intake = { ...LIVE_SERVER_LIMITS.intake, writtenBytes: { organization: MIB, all: MIB } }
  const server = await startLiveServer(davit, { intake })
  servers.push(server)
  return server
}

function writtenAt(server: LiveServer): number {
  return server.publishStats().writtenBytes
}

test('a REST server counts the objects that controllers write', async () => {
  const server = await join()
  const type = await ownEventType(davit)
  receiver.answer('/fails', { status: 503 })
  await davit.endpoint('fails', { url: `${receiver.url}/fails`, eventTypes: [type] })
  const before = writtenAt(server)
  await davit.publish(type, {})
  const hasGrown = async () => writtenAt(server) > before || undefined
  await until(hasGrown, () => 'it does not see the event')
  const withEvent = writtenAt(server)
  await driveToAttempt(davit, 'fails', 1, 1)
  // It is created, and its status is written.
  const hasObject = async () => writtenAt(server) >= withEvent + 2 * objectBytes(0, 0) || undefined
  await until(hasObject, () => `it counts ${writtenAt(server)} after ${withEvent}`)
})

test('REST servers and controllers write together no more than the limit, and one that starts counts what was written before', async () => {
  const type = await ownEventType(davit)
  // It cannot be compressed, so it is written as it is.
  const dataText = JSON.stringify(randomBytes(150_000).toString('base64'))
  const both = [await join(), await join()] as const
  const publish = (server: LiveServer) =>
    server.publishing.publish(davit.organization, { type, dataText }, {})
  let accepted = 0
  for (; accepted < 10; accepted += 1) {
    const server = both[accepted % 2] ?? both[0]
    const before = both.map(writtenAt)
    if ((await codeOf(publish(server))) !== 'answered') break
    const hasGrown = async () =>
      both.every((one, index) => writtenAt(one) > (before[index] ?? 0)) || undefined
    await until(hasGrown, () => `one does not see what the other wrote: ${both.map(writtenAt)}`)
  }
  expect(accepted).toBe(5)
  const codes = [...both, await join()].map((server) => codeOf(publish(server)))
  expect(await Promise.all(codes)).toEqual(['intake_full', 'intake_full', 'intake_full'])
  const event = await davit.publishOnly(type, {})
  davit.clock.jump(2500)
  await passBy(davit, receiver)
  expect((await davit.eventWhen(event, () => true)).status?.state).toBeUndefined()
})
